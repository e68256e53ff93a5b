package door

import (
	"net/http"
	"sync"
	"time"
)

// deadlines are those of a request, which its body, its answer and [Visit.interrupt] set. None is set once the handler
// has returned: over HTTP/2 a ResponseController panics then, and over HTTP/1 it would set those of the next request.
// Its methods may be called concurrently.
type deadlines struct {
	mu      sync.Mutex
	rc      *http.ResponseController
	expired bool // for good
	ended   bool // the handler has returned
}

// setRead sets the time until which the next part of the body must have come; zero is none.
func (d *deadlines) setRead(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.expired && !d.ended {
		_ = d.rc.SetReadDeadline(until)
	}
}

// setWrite sets the time until which the next part of the answer must be read; zero is none. It reports whether there
// is still time.
func (d *deadlines) setWrite(until time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expired || d.ended {
		return false
	}
	_ = d.rc.SetWriteDeadline(until)
	return true
}

// expire has all that waits for the client end at once. It reports whether the handler had not returned.
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

// isExpired reports whether nothing is waited for any more.
func (d *deadlines) isExpired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

// close notes that the handler returns.
func (d *deadlines) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}
