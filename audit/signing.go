package audit

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"fmt"
	"time"
)

// Signing says with which key, and how often, a log is signed.
type Signing struct {
	// Key returns the key to sign with now, which is Ed25519 and may be another one the next time.
	Key   func(context.Context) (crypto.Signer, error)
	Known []ed25519.PublicKey // older keys: without them, the rows under their checkpoints are read again once
	Every int                 // rows between two checkpoints; 0 is 1000
}

// key is the key to sign with now.
func (s Signing) key(ctx context.Context) (crypto.Signer, error) {
	key, err := s.Key(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := key.Public().(ed25519.PublicKey); !ok {
		return nil, errNotEd
	}
	return key, nil
}

// idle is how long rows stay unsigned when no others follow.
const idle = time.Second

// OpenSigned is Open for a log that is also signed: a checkpoint covers all rows after each
// Signing.Every rows that were appended, after a second in which none was, and at Close. Several
// processes may append to one log and sign it, also with different keys.
//
// Rows are never lost for want of a signature. If none can be made, that is logged, and an error of
// Close.
func OpenSigned(ctx context.Context, path string, s Signing) (*Log, error) {
	if _, err := s.key(ctx); err != nil {
		return nil, fmt.Errorf("open audit log %q: %w", path, err)
	}
	if s.Every <= 0 {
		s.Every = 1000
	}
	return open(ctx, path, lockWait, &signer{Signing: s})
}

// Origin is the name under which checkpoints of the log are signed. A log without rows has none.
func (l *Log) Origin(ctx context.Context) (string, error) {
	origin, err := readOrigin(ctx, l.db)
	if err != nil {
		return "", l.readError(err)
	}
	return origin, nil
}

// Checkpoint returns the newest checkpoint once it covers all rows that are in the log now: a C2SP
// tlog-checkpoint. Whoever keeps it elsewhere can tell later, with Verify, that nothing that it covers
// was changed or cut off. A log that was opened without a key has it only if somebody else made it.
func (l *Log) Checkpoint(ctx context.Context) ([]byte, error) {
	note, err := l.checkpointNow(ctx)
	if err != nil {
		return nil, fmt.Errorf("checkpoint of audit log %q: %w", l.path, err)
	}
	return note, nil
}

func (l *Log) checkpointNow(ctx context.Context) ([]byte, error) {
	if l.signer != nil {
		r := &request{done: make(chan struct{})}
		err := l.do(ctx, l.asks, r)
		return r.note, err
	}
	c, note, err := newestCheckpoint(ctx, l.db)
	if err != nil {
		return nil, explain(err, l.wait)
	}
	head, err := lastSeq(ctx, l.db)
	if err == nil && (note == nil || c.size < head) {
		err = fmt.Errorf("rows %d to %d are not signed: %w", c.size+1, head, errNoSigner)
	}
	return note, err
}
