package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	maxData = 1 << 20 // bytes in one row: the log is for facts, not for outputs
)

// request is a call of Append or Checkpoint.
type request struct {
	rows     []Row
	receipts [][]byte      // beside rows, nil where there is none
	soon     bool          // the disk need not be waited for
	note     []byte        // the answer to Checkpoint
	state    atomic.Int32  // waiting until the writer takes it or the caller gives up
	done     chan struct{} // closed when err is the answer
	err      error
}

const (
	waiting int32 = iota
	taken
	withdrawn
)

// Append writes entries as consecutive rows, all or none, and returns them once they are durable, or in the log at
// least if all are to be there soon. Calls that wait at the same time share one transaction.
//
// An error means that nothing was written, also when ctx ended: a request whose rows are being
// written by then is waited for. The exception is a disk that fails in the middle of a commit,
// or as the rows are put on it: whether they are in the log shows at the next Open, and this Log takes no more.
func (l *Log) Append(ctx context.Context, entries ...Entry) ([]Row, error) {
	r, err := newRequest(entries)
	if err == nil && len(entries) > 0 {
		var done bool
		if done, err = l.commitHere(ctx, r); !done && err == nil {
			err = l.do(ctx, l.queue, r)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("append to audit log %q: %w", l.path, err)
	}
	return r.rows, nil
}

func newRequest(entries []Entry) (*request, error) {
	r := &request{rows: make([]Row, len(entries)), receipts: make([][]byte, len(entries)), done: make(chan struct{})}
	r.soon = !slices.ContainsFunc(entries, func(e Entry) bool { return !e.Soon })
	for i, e := range entries {
		data, err := object(e.Data)
		if err == nil && e.Kind == "" {
			err = errors.New("it has no kind")
		}
		if err == nil {
			r.receipts[i] = bytes.Clone(e.Receipt)
			data, err = commit(data, e.Receipt)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", e.Kind, err)
		}
		// What is not UTF-8 would not survive an export, and then the hash could not be checked.
		r.rows[i] = Row{Kind: utf8(e.Kind), Run: utf8(e.Run), Namespace: utf8(e.Namespace), Data: data}
	}
	return r, nil
}

func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func object(data any) (json.RawMessage, error) {
	if data == nil {
		return json.RawMessage("{}"), nil
	}
	b, err := json.Marshal(data)
	switch {
	case err != nil:
		return nil, err
	case b[0] != '{':
		return nil, fmt.Errorf("its data is not a JSON object but %T", data)
	case len(b) > maxData:
		return nil, fmt.Errorf("its data has %d bytes, and %d is the limit", len(b), maxData)
	}
	return json.RawMessage(utf8(string(b))), nil
}

func (l *Log) do(ctx context.Context, to chan<- *request, r *request) error {
	if err := l.send(ctx, to, r); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, withdrawn) {
			return ctx.Err()
		}
		<-r.done // the lock is held and the rows are on their way to the disk
	}
	return r.err
}

func (l *Log) send(ctx context.Context, to chan<- *request, r *request) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case to <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
