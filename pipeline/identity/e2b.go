package identity

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// A token has a second encoding for E2B's SDKs, which only accept keys of e2b_ and hexadecimal digits: the id and the
// secret as one number of 310 bits, and its CRC-32.
const (
	e2bPrefix = "e2b_"
	e2bBytes  = (idLength+secretLength)*5/8 + 1
	e2bLength = len(e2bPrefix) + 2*e2bBytes + 8
	base32Set = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// ToE2B encodes a token as an E2B key, and returns "" if token is not a token.
func ToE2B(token string) string {
	if _, ok := parseToken(token); !ok {
		return ""
	}
	body := strings.TrimPrefix(token, tokenPrefix)
	number := new(big.Int)
	for _, c := range []byte(body[:idLength] + body[idLength+1:][:secretLength]) {
		digit := strings.IndexByte(base32Set, c)
		if digit < 0 {
			return ""
		}
		number.Or(number.Lsh(number, 5), big.NewInt(int64(digit)))
	}
	text := e2bPrefix + hex.EncodeToString(number.FillBytes(make([]byte, e2bBytes)))
	return text + hexCheck(text)
}

// FromE2B decodes a key of [ToE2B], and returns false for any other text.
func FromE2B(key string) (token string, ok bool) {
	digits, found := strings.CutPrefix(key, e2bPrefix)
	if !found || len(key) != e2bLength || strings.ToLower(key) != key || key[e2bLength-8:] != hexCheck(key[:e2bLength-8]) {
		return "", false
	}
	number, err := hex.DecodeString(digits[:2*e2bBytes])
	if err != nil {
		return "", false
	}
	letters := make([]byte, idLength+secretLength)
	rest, low := new(big.Int).SetBytes(number), big.NewInt(31)
	for i := len(letters) - 1; i >= 0; i-- {
		letters[i] = base32Set[new(big.Int).And(rest, low).Int64()]
		rest.Rsh(rest, 5)
	}
	body := tokenPrefix + string(letters[:idLength]) + "_" + string(letters[idLength:])
	return body + checkOf(body), rest.Sign() == 0
}

func hexCheck(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }
