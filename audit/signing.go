package audit

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/schema"
)

// Signing configures the signing of a log.
type Signing struct {
	// Key returns the key to sign with now, an Ed25519 key, which may change between calls. It is called while the log is
	// open, or being opened, so it must not open the log.
	Key func(context.Context) (crypto.Signer, error)
	// KnownKeys returns all public keys, as other processes may replace Key, too. If it is nil, the rows under checkpoints
	// of other keys are read again.
	KnownKeys func() []checkpoint.Key
	// OnSigned is called after each new checkpoint, if it is not nil. It must not block.
	OnSigned func()
	// FreesSpace is set if the log is opened to free space: then opening may use the reserve on a full disk, as SQLite's
	// -shm file needs space.
	FreesSpace bool
	Every      int          // rows between two checkpoints; 0 is 1000
	Log        *slog.Logger // for a message when rows stay unsigned; nil is none
}

// key returns the key to sign with now.
func (s Signing) key(ctx context.Context) (crypto.Signer, error) {
	key, err := s.Key(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := key.Public().(ed25519.PublicKey); !ok {
		return nil, checkpoint.ErrNotEd25519
	}
	return key, nil
}

// OpenSigned is Open for a log that is also signed: a checkpoint covers all rows after the first one of the log, after
// each Signing.Every rows that were appended, after a second without new rows, after five seconds in any case, and at
// Close. Several processes may append to one log and sign it, also with different keys.
//
// A failure to sign loses no rows: Signing.Log gets a message, signing is tried again every two seconds, and a failure
// at Close is an error of Close.
func OpenSigned(ctx context.Context, path string, s Signing) (*Log, error) {
	if s.Every <= 0 {
		s.Every = 1000
	}
	if numbers, err := fileNumbers(path); err != nil || len(numbers) == 0 { // don't create a log without a key
		if _, err := s.key(ctx); err != nil {
			return nil, fmt.Errorf("open audit log %q: %w", path, err)
		}
		return openWithWait(ctx, path, schema.LockWait, &s)
	}
	ready := make(chan error, 1)
	go func() {
		_, err := s.key(ctx)
		ready <- err
	}()
	l, err := openWithWait(ctx, path, schema.LockWait, &s)
	if keyErr := <-ready; keyErr != nil {
		if l != nil {
			l.Close()
		}
		return nil, fmt.Errorf("open audit log %q: %w", path, keyErr)
	}
	return l, err
}

// Origin returns the name under which checkpoints of the log are signed. A log without rows has no name.
func (l *Log) Origin(ctx context.Context) (string, error) {
	f, err := l.currentFile(ctx)
	var origin string
	if err == nil {
		origin, err = readOrigin(ctx, f.db)
	}
	return origin, l.readError(err)
}

// ErrUnsigned is the error of NewestCheckpoint for a log without a checkpoint.
var ErrUnsigned = errors.New("no row of it is signed")

// NewestCheckpoint returns the newest checkpoint, which may not cover the last rows. Its signature is not verified.
func (l *Log) NewestCheckpoint(ctx context.Context) ([]byte, error) {
	f, err := l.currentFile(ctx)
	var note []byte
	if err == nil {
		_, note, err = newestCheckpoint(ctx, f.db)
	}
	if err == nil && note == nil {
		err = ErrUnsigned
	}
	return note, l.readError(err)
}

// Checkpoint returns the newest checkpoint once it covers all rows that are in the log now: a C2SP tlog-checkpoint.
// With a copy elsewhere, Verify can later prove that no covered row was changed or cut off. A log that was opened
// without a key has it only if another process made it.
func (l *Log) Checkpoint(ctx context.Context) ([]byte, error) {
	f, err := l.currentFile(ctx)
	var note []byte
	if err == nil {
		note, err = f.checkpointNow(ctx)
	}
	return note, l.wrapFault("sign", err)
}

func (l *logFile) checkpointNow(ctx context.Context) ([]byte, error) {
	if l.signer != nil {
		r := &request{done: make(chan struct{})}
		err := l.submit(ctx, l.checkpointRequests, r)
		return r.note, err
	}
	c, note, err := newestCheckpoint(ctx, l.db)
	if err != nil {
		return nil, err
	}
	head, err := lastSeq(ctx, l.db)
	if err == nil && (note == nil || c.Size < head) {
		err = fmt.Errorf("rows %d to %d are not signed: %w", c.Size+1, head, errNoSigner)
	}
	return note, err
}
