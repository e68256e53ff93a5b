package identity

import (
	"crypto/rand"

	"golang.org/x/crypto/argon2"
)

// Tokens are hashed by Argon2id (RFC 9106) with 19 MiB, two passes and one lane, which the OWASP Password Storage Cheat Sheet
// recommends as the least for passwords. A token's 260 random bits need no slow hash today; one is used so that the file stays worthless
// should the random generator ever prove weaker than it says. One run takes some 20 ms of a core.
const (
	kdf      = "argon2id,v=19,m=19456,t=2,p=1"
	saltSize = 16
	hashSize = 32
)

func argon(token string, salt []byte) []byte {
	return argon2.IDKey([]byte(token), salt, 2, 19<<10, 1, hashSize)
}

// seal returns the record of a new token.
func (t *Tokens) seal(of Token, token string) record {
	salt := make([]byte, saltSize)
	rand.Read(salt)
	return record{of, kdf, salt, t.derive(token, salt)}
}
