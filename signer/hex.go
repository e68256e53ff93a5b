package signer

import (
	"encoding/hex"
	"strings"
)

// isHash says whether s is a SHA-256 as it is written here: lower-case hex.
func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && s == strings.ToLower(s)
}
