package signer

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	signednote "golang.org/x/mod/sumdb/note"
)

// PublicKey is a key to check signatures with. It is not secret.
type PublicKey struct {
	id  string
	key ed25519.PublicKey
	// Created is when its file was created, by this machine's clock; zero if it is not from our file.
	Created time.Time
	// Replaced is when it named its successor. From Revoked on its signatures are invalid, for Reason. Both are from known
	// statements; zero is never.
	Replaced, Revoked time.Time
	Reason            string
	successor         string // id of its successor
}

// newPublicKey returns the key with its id.
func newPublicKey(key ed25519.PublicKey) (PublicKey, error) {
	if len(key) != ed25519.PublicKeySize {
		return PublicKey{}, fmt.Errorf("an Ed25519 public key has %d bytes, not %d", ed25519.PublicKeySize, len(key))
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return PublicKey{}, err
	}
	sum := sha256.Sum256(der)
	return PublicKey{id: hex.EncodeToString(sum[:]), key: key}, nil
}

// ID is the SHA-256 of the key's PKIX DER, in lower-case hex: the output of "openssl pkey -pubin -outform DER |
// sha256sum" for the PEM.
func (p PublicKey) ID() string { return p.id }

// Ed25519 returns the key itself.
func (p PublicKey) Ed25519() ed25519.PublicKey { return p.key }

// PEM returns the key in the format of openssl and cosign.
func (p PublicKey) PEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		return nil // of a zero PublicKey
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// NoteVerifier returns the verifier key for signed notes, under the name of the signed log.
func (p PublicKey) NoteVerifier(name string) (string, error) {
	return signednote.NewEd25519VerifierKey(name, p.key)
}

// Key signs. It is an Ed25519 crypto.Signer, for example for audit. The zero Key can't sign.
type Key struct {
	PublicKey
	private func() ed25519.PrivateKey // a function, so that printing a Key shows no secret
}

var _ crypto.Signer = (*Key)(nil)

func newKey(private ed25519.PrivateKey) (*Key, error) {
	public, err := newPublicKey(private.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	return &Key{PublicKey: public, private: func() ed25519.PrivateKey { return private }}, nil
}

// Public is an ed25519.PublicKey.
func (k *Key) Public() crypto.PublicKey { return k.key }

// Sign signs a message, not its hash: opts must be crypto.Hash(0). random is not used.
func (k *Key) Sign(random io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if k.private == nil {
		return nil, errors.New("no key to sign with")
	}
	return k.private().Sign(random, message, opts)
}
