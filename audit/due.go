package audit

import (
	"context"
	"errors"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// How long rows stay unsigned.
const (
	signAfterIdle  = time.Second     // without newer rows
	signAtLatest   = 5 * time.Second // with newer rows all the time; also the interval of checks for rows of other processes
	retrySignAfter = 2 * time.Second // after a failure
)

// signNow makes a checkpoint, and stores the error for Close: a missing signature loses no rows, and the next try
// covers them, too.
func (s *signer) signNow(l *logFile) ([]byte, error) {
	l.unsigned.Store(0)
	note, err := s.checkpoint(l)
	if err == nil || errors.Is(err, errNoRows) {
		s.hasUnsigned, s.noCheckpoint, s.err = false, false, nil
		if err == nil && s.OnSigned != nil {
			s.OnSigned()
		}
		return note, err
	}
	why := explain(err, l.wait)
	if s.Log != nil && (s.err == nil || s.err.Error() != why.Error()) {
		s.Log.Error("audit rows stay unsigned", "log", l.path, "error", why)
	}
	s.markUnsigned()
	s.err, s.failedAt = why, time.Now()
	return nil, err
}

var errNoRows = errors.New("it is empty")

// markUnsigned records that there are rows to sign.
func (s *signer) markUnsigned() {
	if !s.hasUnsigned {
		s.hasUnsigned, s.since = true, time.Now()
	}
}

// markUnsignedOfOthers marks rows as unsigned that another Log left: one that was killed, or that wrote about a new key
// before it had a key. A log with other rows and without any checkpoint is evidence, and is not signed.
func (s *signer) markUnsignedOfOthers(l *logFile) {
	if s.hasUnsigned || l.unsigned.Load() > 0 {
		return
	}
	s.lastAdoption = time.Now()
	ctx := context.Background()
	if err := s.connect(ctx, l); err != nil {
		return
	}
	left, err := statefile.One[bool](ctx, s.conn, `SELECT coalesce((SELECT max(size) FROM checkpoints), 0) < (SELECT coalesce(max(seq), 0) FROM audit)
		AND (EXISTS (SELECT 1 FROM checkpoints) OR NOT EXISTS (SELECT 1 FROM audit WHERE kind <> 'key.created'))`)
	if err == nil && left {
		s.noCheckpoint = true
		s.markUnsigned()
	}
}

// signIfDue signs the new rows if they are due, and returns the time until the next check, as untilDue does.
func (s *signer) signIfDue(l *logFile) time.Duration {
	rows := l.unsigned.Load()
	if rows > 0 {
		s.markUnsigned()
	}
	if s.hasUnsigned && (rows >= int64(s.Every) && s.err == nil || s.untilDue(l) == 0) {
		s.signNow(l)
	}
	if len(l.queue) == 0 {
		s.prepareFirst(l)
	}
	return s.untilDue(l)
}

// untilDue returns the time until rows must be signed if no others follow.
func (s *signer) untilDue(l *logFile) time.Duration {
	switch {
	case s == nil:
		return 24 * time.Hour // nothing is due then, either
	case !s.hasUnsigned && s.lastAdoption.IsZero():
		return signAfterIdle
	case !s.hasUnsigned:
		return max(0, time.Until(s.lastAdoption.Add(signAtLatest)))
	case s.err != nil:
		return max(0, time.Until(s.failedAt.Add(retrySignAfter)))
	case s.noCheckpoint: // so that a log without a checkpoint is proof that they were removed
		return 0
	}
	quiet := time.Duration(l.lastWrite.Load()) + signAfterIdle - time.Since(l.opened)
	return max(0, min(quiet, time.Until(s.since.Add(signAtLatest))))
}
