// Package witness pushes checkpoints of an audit log to places that an attacker of the log can't change: a file (on
// another disk, or a share), a branch of a git remote, or a C2SP tlog-witness over HTTP. Each push reads the place's
// checkpoint first: a log that does not continue it was rewritten, or is an older copy, and replaces nothing.
package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Timeout is the time limit of a call to a place.
const Timeout = 20 * time.Second

// Log is the log as seen by a place. [audit.Log] implements it.
type Log interface {
	// NewestCheckpoint is the newest checkpoint.
	NewestCheckpoint(context.Context) ([]byte, error)
	// CheckCheckContinues checks that the log continues a checkpoint.
	CheckContinues(ctx context.Context, note []byte, keys []checkpoint.Key) (size int64, err error)
	Consistency(ctx context.Context, old, size int64) ([]tlog.Hash, error)
}

// Place is a destination of checkpoints. Its calls end with ctx, and after Timeout.
type Place struct {
	Name    string         // as configured, without the part after "#"
	store   store          // nil for a witness, which reveals its checkpoint only in reply to a push
	witness *witnessClient // nil for a store
}

// Parse parses a place: the absolute path of a file; git:REMOTE, or git:REMOTE#BRANCH; https://HOST/PREFIX#KEY of a
// witness, with its verifier key (NAME+HASH+KEY), or http for a witness on this machine or in a trusted network.
func Parse(text string) (Place, error) {
	where, rest, _ := strings.Cut(text, "#")
	p := Place{Name: where}
	switch remote, git := strings.CutPrefix(where, "git:"); {
	case git:
		g, err := newGit(remote, rest)
		p.store = g
		return p, err
	case strings.HasPrefix(where, "https://"), strings.HasPrefix(where, "http://"):
		var err error
		p.witness, err = newServer(where, rest)
		return p, err
	case filepath.IsAbs(where):
		p.Name, p.store = text, fileStore(text)
		return p, nil
	}
	return p, fmt.Errorf("%q is not a place for checkpoints: write /an/absolute/path, git:REMOTE#BRANCH, or https://HOST/PREFIX#KEY "+
		"of a witness", where)
}

// Push sends the log's newest checkpoint to the place, unless the place has it, and returns a witness's signatures, as
// lines of a signed note.
func (p Place) Push(ctx context.Context, log Log, keys []checkpoint.Key) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var signatures []byte
	var err error
	if p.store != nil {
		err = p.replaceStored(ctx, log, keys)
	} else {
		signatures, err = p.witness.pushCheckpoint(ctx, log)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, timeoutError(ctx, err))
	}
	return signatures, nil
}

// Stored returns the checkpoint of the place; ok is false for a witness, which reveals it only in reply to a push. A
// missing checkpoint is an error.
func (p Place) Stored(ctx context.Context) (note []byte, ok bool, err error) {
	if p.store == nil {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	note, err = p.store.read(ctx)
	if err == nil && note == nil {
		err = errors.New("no checkpoint is there: none was pushed yet, or it was removed (sandboxmcp audit checkpoint --push)")
	}
	if err != nil {
		return nil, true, fmt.Errorf("%s: %w", p.Name, timeoutError(ctx, err))
	}
	return note, true, nil
}

// timeoutError replaces an error that the time limit caused.
func timeoutError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it did not answer within %v", Timeout)
	}
	return err
}

// store is a place that stores a single checkpoint.
type store interface {
	read(context.Context) ([]byte, error) // nil if there is none
	// write replaces old by note, or changes nothing.
	write(ctx context.Context, note, old []byte, size int64) error
}

// replaceStored replaces the place's checkpoint by the log's newest one, unless it covers as many rows.
func (p Place) replaceStored(ctx context.Context, log Log, keys []checkpoint.Key) error {
	note, err := log.NewestCheckpoint(ctx)
	if err != nil {
		return err
	}
	old, err := p.store.read(ctx)
	if err != nil || bytes.Equal(old, note) {
		return err
	}
	size, err := audit.CheckpointSize(note)
	if err != nil {
		return err
	}
	if old != nil {
		stored, err := log.CheckContinues(ctx, old, keys)
		if err != nil {
			return fmt.Errorf("the checkpoint there: %w", err)
		}
		if stored >= size { // another process has pushed
			return nil
		}
	}
	return p.store.write(ctx, note, old, size)
}

// fileStore stores a checkpoint in a file.
type fileStore string

func (f fileStore) read(context.Context) ([]byte, error) { return audit.ReadCheckpoint(string(f)) }

// write replaces the file atomically: on a full disk, the old one stays.
func (f fileStore) write(_ context.Context, note, _ []byte, _ int64) error {
	return statefile.Replace(string(f), "checkpoint", note, 0o644)
}
