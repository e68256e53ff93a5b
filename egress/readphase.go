package egress

import (
	"net"
	"sync"
	"time"
)

// longAgo is a deadline that ends reads at once.
var longAgo = time.Unix(1, 0)

// readPhase lets other goroutines interrupt the reads of a phase, and no later reads.
type readPhase struct {
	conn net.Conn
	done chan struct{} // closed when the phase is over

	mu   sync.Mutex
	over bool
	why  cause
}

// cause is the cause of an interruption.
type cause int

const (
	tooSlow cause = iota + 1 // the client is slow
	needed                   // nobody waits for the client's words any more
	paused                   // the client is silent
)

// interrupt ends reads, if the phase is not over.
func (h *readPhase) interrupt(why cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over && (h.why == 0 || h.why == paused) {
		h.why = why
		_ = h.conn.SetReadDeadline(longAgo)
	}
}

// resume allows reads after a pause, and reports whether there was one.
func (h *readPhase) resume() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != paused {
		return false
	}
	h.why = 0
	_ = h.conn.SetReadDeadline(time.Time{})
	return true
}

// end ends the phase: later reads are not interrupted. It returns why reads were interrupted, if they were.
func (h *readPhase) end() cause {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over = true
		_ = h.conn.SetReadDeadline(time.Time{})
		close(h.done)
	}
	return h.why
}
