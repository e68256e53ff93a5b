package door

import (
	"net/http"
	"sync"
	"time"
)

// deadlines are the deadlines of a request, set for its body, its answer and by [Visit.interrupt]. None is set once
// the handler has returned: a ResponseController would panic over HTTP/2, and would affect the next request over
// HTTP/1. Its methods may be called concurrently.
type deadlines struct {
	mu      sync.Mutex
	rc      *http.ResponseController
	expired bool // all deadlines are over, permanently
	ended   bool // the handler has returned
}

// setRead sets the deadline for the next part of the body; zero is none.
func (d *deadlines) setRead(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.expired && !d.ended {
		_ = d.rc.SetReadDeadline(until)
	}
}

// setWrite sets the deadline for reading the next part of the answer; zero is none. It returns false if deadlines
// can't be set any more.
func (d *deadlines) setWrite(until time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expired || d.ended {
		return false
	}
	_ = d.rc.SetWriteDeadline(until)
	return true
}

// expire ends all waiting for the client at once. It returns false if the handler has returned.
func (d *deadlines) expire() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expired = true
	if d.ended {
		return false
	}
	past := time.Unix(1, 0)
	_ = d.rc.SetReadDeadline(past)
	_ = d.rc.SetWriteDeadline(past)
	return true
}

// isExpired reports whether expire was called.
func (d *deadlines) isExpired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

// close records that the handler returns.
func (d *deadlines) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}
