package audit

import "time"

// flushDelay is the maximum age of an unflushed Soon commit. Most runs end within it, and the flush of the end covers
// the start, too: a second flush would cost a tenth of a run on a slow machine.
const flushDelay = 20 * time.Millisecond

// runWriter is the log's background goroutine: it writes queued requests, flushes late commits, and signs, until Close.
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
				_ = l.disk.flush(l, commit) // after a failure, the next row is refused
			}
			if wal := l.preallocateWAL(); wal != nil {
				_ = l.sync(wal) // not on the path of the next row, which reports the error
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

// scheduleFlush counts an unflushed commit, and starts the flush timer. The timer keeps running after other flushes:
// setting it for each commit would cost more than a needless check.
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

// lateCommit returns the last commit if one has been unflushed for flushDelay, or 0; otherwise it sets the timer.
func (l *logFile) lateCommit() int64 {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	l.w.timerSet = false
	commit := l.disk.commits.Load()
	if l.disk.flushed.Load() >= commit {
		return 0
	}
	left := flushDelay - time.Since(l.w.unflushedSince)
	if l.disk.isFlushing() { // avoid a second flush at once
		left = max(left, time.Millisecond)
	}
	if left > 0 {
		l.w.timerSet = true
		l.flushTimer.Reset(left)
		return 0
	}
	return commit
}

// wakeSigner counts new rows, and wakes the signer for the first row and for every s.Every rows: a wake-up for each row
// would cost as much as writing it.
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
