// Package checkpoint signs and checks the checkpoints of a log.
package checkpoint

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Head is the root of the log's tree at a size. As a signed note it is a C2SP tlog-checkpoint
// (https://c2sp.org/tlog-checkpoint).
type Head struct {
	Origin string // name of the log
	Size   int64
	Root   tlog.Hash
	KeyEnd time.Time // the signature does not cover rows from then on, as the key was replaced; zero is never
}

// Key is a public key for checking checkpoints.
type Key struct {
	ed25519.PublicKey
	// End is when the key was replaced or revoked: its checkpoints must not cover rows that were written later. Zero is
	// never.
	End time.Time
}

// CheckKeyAt returns an error if the key of a checkpoint was not valid any more at the time of a row that it covers.
func (c Head) CheckKeyAt(at time.Time) error {
	if c.KeyEnd.IsZero() || !at.After(c.KeyEnd) {
		return nil
	}
	return fmt.Errorf("it covers a row of %s, and its key does not count from %s on", at.UTC().Format(time.RFC3339),
		c.KeyEnd.UTC().Format(time.RFC3339))
}

// LogName returns the name of a log, made of 16 digits of its first row's hash.
func LogName(firstHash []byte) string { return fmt.Sprintf("sandboxmcp-audit/%x", firstHash[:8]) }

// ErrNotCheckpoint is the error for text that is not a signed checkpoint.
var ErrNotCheckpoint = errors.New("it is not a signed checkpoint")

// Errors of notes.
var (
	ErrOtherLog   = errors.New("it is of another log")
	ErrBadSig     = errors.New("its signature does not match what it says")
	ErrNoKey      = errors.New("it is signed by no known key")
	ErrNotEd25519 = errors.New("checkpoints need an Ed25519 key")
)

// Sign makes the note.
func (c Head) Sign(key crypto.Signer) ([]byte, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
	return note.Sign(&note.Note{Text: text}, noteSigner{c.Origin, key})
}

// noteSigner signs notes with an Ed25519 key under a name.
type noteSigner struct {
	name string
	key  crypto.Signer
}

func (s noteSigner) Name() string { return s.name }

// KeyHash is the signed-note format's short id of an Ed25519 key (algorithm 1).
func (s noteSigner) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(s.name+"\n\x01"), s.key.Public().(ed25519.PublicKey)...))
	return binary.BigEndian.Uint32(sum[:])
}

func (s noteSigner) Sign(msg []byte) ([]byte, error) {
	return s.key.Sign(rand.Reader, msg, crypto.Hash(0))
}

// Keyring checks notes of an origin. Without keys, any signature is accepted.
type Keyring struct {
	Origin string
	some   bool
	known  note.Verifiers
	until  map[uint32]time.Time // end times of keys, by key hash
}

// NewKeyring returns the keyring of keys.
func NewKeyring(origin string, keys []Key) Keyring {
	var known []note.Verifier
	var names []string
	until := map[uint32]time.Time{}
	for _, key := range keys {
		name, err := note.NewEd25519VerifierKey(origin, key.PublicKey)
		if err != nil || slices.Contains(names, name) {
			continue
		}
		if v, err := note.NewVerifier(name); err == nil {
			names, known = append(names, name), append(known, v)
			until[v.KeyHash()] = key.End
		}
	}
	return Keyring{origin, len(keys) > 0, note.VerifierList(known...), until}
}

// Open parses a note. If the keyring has keys, one of them must have signed it.
func (k Keyring) Open(msg []byte) (Head, error) {
	n, err := note.Open(msg, k.known)
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		n = unverified.Note
	case errors.As(err, &invalid):
		return Head{}, ErrBadSig
	case err != nil:
		return Head{}, ErrNotCheckpoint
	}
	c, err := parseCheckpoint(n.Text)
	switch {
	case err != nil:
		return c, err
	case k.Origin != "" && c.Origin != k.Origin:
		return c, fmt.Errorf("%w, %s; this one is %s", ErrOtherLog, safetext.Line(safetext.Clip(c.Origin, 80)), k.Origin)
	case k.some && len(n.Sigs) == 0:
		return c, ErrNoKey
	}
	for _, s := range slices.Concat(n.Sigs, n.UnverifiedSigs) {
		// the note package ignores leftover bits after the last byte
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return c, ErrBadSig
		}
	}
	for i, s := range n.Sigs { // of several keys, the one with the latest end
		if end := k.until[s.Hash]; i == 0 || end.IsZero() || !c.KeyEnd.IsZero() && end.After(c.KeyEnd) {
			c.KeyEnd = end
		}
	}
	return c, nil
}

// Open parses a note whose origin is known only from the note itself.
func Open(msg []byte, keys []Key) (Head, error) {
	origin, _, _ := strings.Cut(string(msg), "\n")
	return NewKeyring(origin, keys).Open(msg)
}

// parseCheckpoint reads the text of a note: origin, size, root, and lines that others may have added.
func parseCheckpoint(text string) (c Head, err error) {
	lines := strings.Split(text, "\n") // the last one is empty
	if len(lines) < 4 || slices.Contains(lines[:len(lines)-1], "") {
		return c, ErrNotCheckpoint
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return c, ErrNotCheckpoint
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil || root.String() != lines[2] {
		return c, ErrNotCheckpoint
	}
	return Head{Origin: lines[0], Size: size, Root: root}, nil
}
