package audit

import "time"

// flushDelay is the maximum age of an unflushed commit that nobody waits for. Most runs have ended by then, and
// flushing their ends flushes their starts, too: to wait for the disk twice costs a run on a slow machine a tenth of
// what the server does for it.
const flushDelay = 20 * time.Millisecond

// runWriter is the log's background goroutine: it writes queued requests, flushes late commits, and signs. It lives until
// Close.
func (l *logFile) runWriter() {
	defer close(l.written)
	defer l.finishWriter()
	s := l.signer
	quiet := time.NewTimer(s.untilDue(l))
	defer quiet.Stop()
	for {
		select {
		case r := <-l.queue:
			if r == nil { // the log is closed
				return
			}
			l.commitNext(r)
		case <-l.flushTimer.C:
			if commit := l.lateCommit(); commit > 0 {
				_ = l.disk.flush(l, commit) // the next row finds a failed disk again, and is not written then
			}
			if wal := l.preallocateWAL(); wal != nil {
				_ = l.sync(wal) // or else it would be on the path of the next row, whose own error shows what is wrong
			}
		case r := <-l.checkpointRequests:
			if r.state.CompareAndSwap(waiting, taken) {
				r.note, r.err = s.signNow(l)
				close(r.done)
			}
		case <-l.wake:
		case <-quiet.C:
			if s != nil {
				s.markUnsignedOfOthers(l)
			}
		}
		if s != nil {
			quiet.Reset(s.signIfDue(l))
		}
	}
}

// finishWriter signs the remaining rows, and closes the connections.
func (l *logFile) finishWriter() {
	if s := l.signer; s != nil {
		s.markUnsignedOfOthers(l)
		if l.unsigned.Load() > 0 || s.hasUnsigned {
			s.signNow(l)
		}
		s.close()
	}
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.flushTimer.Stop()
	l.disk.flush(l, l.disk.commits.Load())
	l.disk.close()
	l.w.close()
}

// scheduleFlush counts an unflushed commit, and starts the flush timer. The timer keeps running while others flush in
// time: setting it for each commit would cost a run more than a needless check.
func (l *logFile) scheduleFlush() (commit int64) {
	if l.disk.flushed.Load() >= l.disk.commits.Load() {
		l.w.unflushedSince = time.Now()
	}
	if !l.w.timerSet {
		l.w.timerSet = true
		l.flushTimer.Reset(flushDelay)
	}
	return l.disk.commits.Add(1)
}

// lateCommit returns the last commit if one has been unflushed for flushDelay, or 0; it sets the timer for the time
// when that will be.
func (l *logFile) lateCommit() int64 {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.w.timerSet = false
	commit := l.disk.commits.Load()
	if l.disk.flushed.Load() >= commit {
		return 0
	}
	left := flushDelay - time.Since(l.w.unflushedSince)
	if l.disk.isFlushing() { // by somebody, while others want to have rows written here
		left = max(left, time.Millisecond)
	}
	if left > 0 {
		l.w.timerSet = true
		l.flushTimer.Reset(left)
		return 0
	}
	return commit
}

// wakeSigner counts new rows, and wakes the signer if it does not know yet that there are any, or if there are enough:
// a wake-up for each row would cost as much as writing the row.
func (l *logFile) wakeSigner(rows int) {
	s := l.signer
	if s == nil || rows == 0 {
		return
	}
	l.lastWrite.Store(int64(time.Since(l.opened)))
	n := l.unsigned.Add(int64(rows))
	if before, every := n-int64(rows), int64(s.Every); before > 0 && (before >= every || n < every) {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
