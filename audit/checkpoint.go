package audit

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

// checkpoint is the root of the log's tree at a size. As a signed note it is a C2SP tlog-checkpoint
// (https://c2sp.org/tlog-checkpoint).
type checkpoint struct {
	origin string // which log it is of
	size   int64
	root   tlog.Hash
	until  time.Time // rows from then on its signature does not cover: its key was replaced; zero is never
}

// Key is a public key for checking checkpoints.
type Key struct {
	ed25519.PublicKey
	// Until is from when on it may sign nothing, as it was replaced or revoked: what it has signed must not cover rows
	// that were written later. Zero is never.
	Until time.Time
}

// covers returns an error if a checkpoint covers a row of a time from which on its key does not count.
func (c checkpoint) covers(at time.Time) error {
	if c.until.IsZero() || !at.After(c.until) {
		return nil
	}
	return fmt.Errorf("it covers a row of %s, and its key does not count from %s on", at.UTC().Format(time.RFC3339), c.until.UTC().Format(time.RFC3339))
}

// originOf returns the name of a log, made of 16 digits of its first row's hash.
func originOf(firstHash []byte) string { return fmt.Sprintf("sandboxmcp-audit/%x", firstHash[:8]) }

// ErrNoNote is the error for text that is no signed checkpoint at all.
var ErrNoNote = errors.New("it is not a signed checkpoint")

var (
	errOtherLog = errors.New("it is of another log")
	errBadSig   = errors.New("its signature does not match what it says")
	errNoKey    = errors.New("it is signed by no known key")
	errNotEd    = errors.New("checkpoints need an Ed25519 key")
	errNoSigner = errors.New("the log was opened without a key to sign with")
)

// sign makes the note.
func (c checkpoint) sign(key crypto.Signer) ([]byte, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", c.origin, c.size, c.root)
	return note.Sign(&note.Note{Text: text}, noteSigner{c.origin, key})
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

// keyring checks notes of an origin. Without keys, any signature is accepted.
type keyring struct {
	origin string
	some   bool
	known  note.Verifiers
	until  map[uint32]time.Time // of keys by their hash, if they have one
}

func newKeyring(origin string, keys []Key) keyring {
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
			until[v.KeyHash()] = key.Until
		}
	}
	return keyring{origin, len(keys) > 0, note.VerifierList(known...), until}
}

// open parses a note. If the keyring has keys, one of them must have signed it.
func (k keyring) open(msg []byte) (checkpoint, error) {
	n, err := note.Open(msg, k.known)
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		n = unverified.Note
	case errors.As(err, &invalid):
		return checkpoint{}, errBadSig
	case err != nil:
		return checkpoint{}, ErrNoNote
	}
	c, err := parseCheckpoint(n.Text)
	switch {
	case err != nil:
		return c, err
	case k.origin != "" && c.origin != k.origin:
		return c, fmt.Errorf("%w, %s; this one is %s", errOtherLog, quoted(c.origin), k.origin)
	case k.some && len(n.Sigs) == 0:
		return c, errNoKey
	}
	for _, s := range slices.Concat(n.Sigs, n.UnverifiedSigs) {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil { // the note package ignores the bits beside the last byte
			return c, errBadSig
		}
	}
	for i, s := range n.Sigs { // of several keys, the one that counts longest
		if end := k.until[s.Hash]; i == 0 || end.IsZero() || !c.until.IsZero() && end.After(c.until) {
			c.until = end
		}
	}
	return c, nil
}

// openNote parses a note whose origin is known only from the note itself.
func openNote(msg []byte, keys []Key) (checkpoint, error) {
	origin, _, _ := strings.Cut(string(msg), "\n")
	return newKeyring(origin, keys).open(msg)
}

// parseCheckpoint reads the text of a note: origin, size, root, and lines that others may have added.
func parseCheckpoint(text string) (c checkpoint, err error) {
	lines := strings.Split(text, "\n") // the last one is empty
	if len(lines) < 4 || slices.Contains(lines[:len(lines)-1], "") {
		return c, ErrNoNote
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return c, ErrNoNote
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil || root.String() != lines[2] {
		return c, ErrNoNote
	}
	return checkpoint{origin: lines[0], size: size, root: root}, nil
}

// quoted escapes untrusted text for a message, and cuts it after 80 bytes.
func quoted(s string) string { return safetext.Line(safetext.Clip(s, 80)) }
