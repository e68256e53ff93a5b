package call

import (
	"sync"
	"time"
)

// Pace bounds the output that several connections carry together, where an engine or a cluster's API server carries it,
// too. The zero value is ready, and nil bounds nothing. A program that writes faster waits, once the buffers on the way
// are full.
type Pace struct {
	mu   sync.Mutex
	next time.Time // when what was carried so far would have been, at the rate
}

// How fast output may be carried for long, in bytes a second, and how much of it at once.
const (
	paceRate  = 8 << 20
	paceBurst = 16 << 20
)

// wait returns when n more bytes may be carried, or done is closed.
func (p *Pace) wait(n int, done <-chan struct{}) {
	if p == nil || n == 0 {
		return
	}
	p.mu.Lock()
	now := time.Now()
	if earliest := now.Add(-paceBurst * time.Second / paceRate); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(time.Duration(n) * time.Second / paceRate)
	left := p.next.Sub(now)
	p.mu.Unlock()
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}
