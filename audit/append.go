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

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
)

// request is a call of Append or Checkpoint.
type request struct {
	rows     []Row
	receipts [][]byte      // of rows; nil for none
	packed   []packedRow   // stored form of both
	soon     bool          // need not wait for the disk
	note     []byte        // result of Checkpoint
	state    atomic.Int32  // waiting until the writer takes the request or the caller withdraws it
	done     chan struct{} // closed when err is set
	err      error
}

const (
	waiting int32 = iota
	taken
	withdrawn
)

// Append writes entries as consecutive rows, all or none, and returns them once they are durable, or, if all are Soon,
// once they are in the log. Calls that wait at the same time share one transaction.
//
// An error means that nothing was written, also when ctx ended: Append waits for rows that are being written by then.
// The exception is a disk that fails during a commit or a flush: then the rows may be in the log. The next call opens
// the log again and checks it.
func (l *Log) Append(ctx context.Context, entries ...Entry) ([]Row, error) {
	r, err := newRequest(entries)
	if err == nil && len(entries) > 0 {
		err = l.append(ctx, r)
	}
	if err != nil {
		err = &Unwritten{fmt.Errorf("append to audit log %q: %w", l.path, err)}
		if r != nil && allLate(entries) {
			err = l.keepOwed(r.rows, err)
		}
		return nil, err
	}
	return r.rows, nil
}

// append appends to the active file, or to the next one if that was rotated.
func (l *Log) append(ctx context.Context, r *request) error {
	for {
		f, err := l.usableFile(ctx)
		if err == nil {
			err = f.append(ctx, r)
		}
		if !errors.Is(err, errRotated) && !(errors.Is(err, errMoved) && f.hasNextFile()) {
			if err == nil && !r.soon {
				l.recovery.written.Store(&r.rows[len(r.rows)-1])
			}
			return err
		}
		if _, err := l.openNextFile(ctx, f); err != nil {
			return err
		}
		r.done, r.state = make(chan struct{}), atomic.Int32{}
	}
}

func (l *logFile) append(ctx context.Context, r *request) error {
	if err := l.pack(ctx, r); err != nil {
		return err
	}
	if done, err := l.commitHere(ctx, r); done || err != nil {
		return err
	}
	return l.submit(ctx, l.queue, r)
}

func newRequest(entries []Entry) (*request, error) {
	r := &request{rows: make([]Row, len(entries)), receipts: make([][]byte, len(entries)), done: make(chan struct{})}
	r.soon = !slices.ContainsFunc(entries, func(e Entry) bool { return !e.Soon })
	for i, e := range entries {
		data, err := marshalObject(e.Data)
		if err == nil && e.Kind == "" {
			err = errors.New("it has no kind")
		}
		if err == nil {
			r.receipts[i] = bytes.Clone(e.Receipt)
			data, err = addReceiptHash(data, e.Receipt)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", e.Kind, err)
		}
		// Invalid UTF-8 would not survive an export, and then the hash could not be checked.
		r.rows[i] = Row{Kind: replaceInvalidUTF8(e.Kind), Run: replaceInvalidUTF8(e.Run), Namespace: replaceInvalidUTF8(e.Namespace), Data: data}
	}
	return r, nil
}

func replaceInvalidUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func marshalObject(data any) (json.RawMessage, error) {
	if data == nil {
		return json.RawMessage("{}"), nil
	}
	b, err := json.Marshal(data)
	switch {
	case err != nil:
		return nil, err
	case b[0] != '{':
		return nil, fmt.Errorf("its data is not a JSON object but %T", data)
	case len(b) > pack.MaxData:
		return nil, fmt.Errorf("its data has %d bytes, and %d is the limit", len(b), pack.MaxData)
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD")), nil
}

func (l *logFile) submit(ctx context.Context, to chan<- *request, r *request) error {
	if err := l.enqueue(ctx, to, r); err != nil {
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

func (l *logFile) enqueue(ctx context.Context, to chan<- *request, r *request) error {
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

// maxBatch is the maximum number of requests in a transaction: it bounds how long other processes wait.
const maxBatch = 512

// commitHere writes r in the caller's goroutine, which saves two wake-ups, if there is no other writer in any process.
// Otherwise nothing is written, and the caller queues r.
func (l *logFile) commitHere(ctx context.Context, r *request) (done bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return false, errClosed
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if len(l.queue) > 0 || l.writerWaiting.Load() || !l.writeMu.TryLock() { // the writer of earlier requests writes r along
		return false, nil
	}
	if ready, err := l.lockNow(); ready {
		l.commit(r, err)
		return true, r.err
	}
	l.writeMu.Unlock()
	return false, nil
}

// lockNow takes the database's lock if it is free. An error is the result of the requests to be written.
func (l *logFile) lockNow() (ready bool, err error) {
	if l.w.conn == nil { // opening it may take long, and can't be cancelled
		return false, nil
	}
	if err = l.w.ensureReady(l); err == nil {
		_, err = l.w.beginStmt.Exec()
	}
	return !isBusy(err), err
}

// commitNext writes a queued request as soon as it can. Callers can withdraw their requests until it has the database's
// lock.
func (l *logFile) commitNext(r *request) {
	l.writerWaiting.Store(true)
	l.writeMu.Lock()
	l.writerWaiting.Store(false)
	l.commit(r, l.w.lockDatabase(l))
}

// commit writes r and the queued requests, unless err says why the lock was not taken. It unlocks writeMu before it
// waits for the disk.
func (l *logFile) commit(r *request, err error) {
	batch := l.collectBatch(r)
	last, err := l.writeBatch(batch, err)
	if err == nil && slices.ContainsFunc(batch, func(r *request) bool { return !r.soon }) {
		err = l.disk.flush(l, last)
	}
	l.writability.recordWrite(err)
	if err != nil {
		err = explain(err, l.wait)
	}
	rows := 0
	for _, r := range batch {
		r.err = err
		close(r.done)
		rows += len(r.rows)
	}
	if err == nil {
		l.wakeSigner(rows)
	}
}

// writeBatch writes batch as one commit, and unlocks writeMu.
func (l *logFile) writeBatch(batch []*request, err error) (commit int64, _ error) {
	defer l.writeMu.Unlock()
	if err == nil {
		if err = l.w.commitOrRollBack(l.w.insertRows(batch, l.now)); err == nil {
			l.w.tip.version = l.w.dataVersion()
		}
	}
	if err != nil {
		return 0, err
	}
	if n := len(batch); n > 0 {
		last := positionOf(batch[n-1].rows[len(batch[n-1].rows)-1])
		l.disk.last.Store(&last)
	}
	return l.scheduleFlush(), nil
}

// collectBatch returns r and the requests queued after it, without withdrawn ones.
func (l *logFile) collectBatch(r *request) (batch []*request) {
	for r != nil {
		if r.state.CompareAndSwap(waiting, taken) {
			batch = append(batch, r)
		}
		if len(batch) == maxBatch {
			break
		}
		select {
		case r = <-l.queue: // nil once the log is closed
		default:
			r = nil
		}
	}
	return batch
}
