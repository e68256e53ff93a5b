package audit

import (
	"context"
	"slices"
)

// maxBatch is the maximum number of requests in a transaction: it bounds how long other processes wait.
const maxBatch = 512

// commitHere writes r in the caller's goroutine, which saves two wake-ups, if there is no other writer, in this process
// or another. Otherwise nothing is written, and r is queued.
func (l *Log) commitHere(ctx context.Context, r *request) (done bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return false, errClosed
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if len(l.queue) > 0 || l.next.Load() || !l.writeMu.TryLock() { // whoever came before writes it along
		return false, nil
	}
	if ready, err := l.lockNow(); ready {
		l.commit(r, err)
		return true, r.err
	}
	l.writeMu.Unlock()
	return false, nil
}

// lockNow takes the database's lock if it is free. An error concerns the requests to be written.
func (l *Log) lockNow() (ready bool, err error) {
	if l.w.conn == nil { // to open it may take long, and could not be given up
		return false, nil
	}
	if err = l.w.ready(l); err == nil {
		_, err = l.w.lock.Exec()
	}
	return !busy(err), err
}

// commitNext writes a request that has waited, as soon as it can. Until it has the database's lock nothing is
// taken, so that callers can give up as long as others keep us waiting.
func (l *Log) commitNext(r *request) {
	l.next.Store(true)
	l.writeMu.Lock()
	l.next.Store(false)
	l.commit(r, l.w.begin(l))
}

// commit writes r, and what else waits by now, unless err says why there is no lock to do it under. It unlocks
// writeMu before it waits for the disk.
func (l *Log) commit(r *request, err error) {
	batch := l.take(r)
	last, err := l.put(batch, err)
	if err == nil && slices.ContainsFunc(batch, func(r *request) bool { return !r.soon }) {
		err = l.disk.flush(l, last)
	}
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

// put writes batch as one commit, and unlocks writeMu.
func (l *Log) put(batch []*request, err error) (commit int64, _ error) {
	defer l.writeMu.Unlock()
	if err == nil {
		err = l.w.end(l.w.insert(batch, l.now))
	}
	if err != nil {
		return 0, err
	}
	return l.scheduleFlush(), nil
}

// take returns r and the requests that wait behind it, but those whose callers have given up.
func (l *Log) take(r *request) (batch []*request) {
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
