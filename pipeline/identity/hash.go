package identity

import (
	"crypto/rand"

	"golang.org/x/crypto/argon2"
)

// Tokens are hashed with Argon2id (RFC 9106) with 19 MiB, two passes and one lane, the minimum for passwords in the
// OWASP Password Storage Cheat Sheet. A token's 220 random bits need no slow hash today; it keeps the file worthless
// should the random generator turn out to be weaker than promised. One hash takes about 20 ms of a core and 19 MiB;
// maxDerivations bounds concurrent ones.
const (
	kdf      = "argon2id,v=19,m=19456,t=2,p=1"
	saltSize = 16
	keySize  = 32
	hashSize = 32
)

func argon(token string, salt []byte) []byte {
	return argon2.IDKey([]byte(token), salt, 2, 19<<10, 1, hashSize)
}

// seal returns the record of a new token that was created with the key.
func (t *Tokens) seal(of Token, token string, key []byte) record {
	salt := random(saltSize)
	return record{of, key, kdf, salt, t.derive(token, salt)}
}

func random(size int) []byte {
	b := make([]byte, size)
	rand.Read(b)
	return b
}
