package call

import (
	"sync"
	"time"
)

// Pace bounds the total output of several connections through one engine or cluster API server. The zero value is
// ready, and nil sets no bound. A program that writes faster blocks once the buffers are full.
type Pace struct {
	mu   sync.Mutex
	next time.Time // when the output so far would be done at the sustained rate
}

// The sustained rate of output in bytes per second, and the burst in bytes.
const (
	paceRate  = 8 << 20
	paceBurst = 16 << 20
)

// wait returns when n more bytes may be sent, or done is closed.
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
