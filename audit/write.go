package audit

import "time"

// soonest is how long rows that nobody waits for may be off the disk. Most runs have ended by then, and what puts
// their ends on the disk takes their starts along: to wait for the disk twice costs a run on a slow machine a tenth of
// what the server does for it.
const soonest = 20 * time.Millisecond

// write is the goroutine that does what callers of this Log do not: write what could not be written at once, put
// on the disk what nobody waits for, and sign. It lives until Close.
func (l *Log) write() {
	defer close(l.written)
	defer l.end()
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
		case <-l.loose.C:
			l.flushLoose()
			l.preallocateOnce()
		case r := <-l.asks:
			if r.state.CompareAndSwap(waiting, taken) {
				r.note, r.err = s.try(l)
				close(r.done)
			}
		case <-l.heard:
		case <-quiet.C:
			if s != nil {
				s.adopt(l)
			}
		}
		if s != nil {
			quiet.Reset(s.signIfDue(l))
		}
	}
}

// end signs what is left to sign, and gives the connections back.
func (l *Log) end() {
	if s := l.signer; s != nil {
		s.adopt(l)
		if l.unsigned.Load() > 0 || s.due {
			s.try(l)
		}
		s.close()
	}
	l.pen.Lock()
	defer l.pen.Unlock()
	l.loose.Stop()
	l.disk.flush(l, l.disk.commits.Load())
	l.disk.close()
	l.w.close()
}

// loosen counts a commit, which is not known to be on the disk, and sees to it that it soon is. The timer goes on while
// others are flushed in time: to set it for each would cost a run more than to check in vain.
func (l *Log) loosen() (commit int64) {
	if l.disk.on.Load() >= l.disk.commits.Load() {
		l.w.since = time.Now()
	}
	if !l.w.timed {
		l.w.timed = true
		l.loose.Reset(soonest)
	}
	return l.disk.commits.Add(1)
}

// flushLoose puts rows on the disk that have been off it for long. A disk that fails is found again by the next
// row, which is not written then.
func (l *Log) flushLoose() {
	if commit := l.looseLong(); commit > 0 {
		_ = l.disk.flush(l, commit)
	}
}

// looseLong returns the last commit if one has been off the disk for long, or 0; it sets the timer where that will be.
func (l *Log) looseLong() int64 {
	l.pen.Lock()
	defer l.pen.Unlock()
	l.w.timed = false
	commit := l.disk.commits.Load()
	if l.disk.on.Load() >= commit {
		return 0
	}
	left := soonest - time.Since(l.w.since)
	if l.disk.waited() { // by somebody, while others want to have rows written here
		left = max(left, time.Millisecond)
	}
	if left > 0 {
		l.w.timed = true
		l.loose.Reset(left)
		return 0
	}
	return commit
}

// news counts rows that were written, and wakes the one that signs if it does not know yet that there are any, or if
// there are enough: to be woken for each would cost as much as to write it.
func (l *Log) news(rows int) {
	s := l.signer
	if s == nil || rows == 0 {
		return
	}
	l.wrote.Store(int64(time.Since(l.opened)))
	n := l.unsigned.Add(int64(rows))
	if before, every := n-int64(rows), int64(s.Every); before > 0 && (before >= every || n < every) {
		return
	}
	select {
	case l.heard <- struct{}{}:
	default:
	}
}
