package door

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// budget bounds the memory of running requests, of all doors and clients. Each identity has a share, and requests
// without a proven identity have one together. A request without room waits shortly, and is then refused. It may be
// used concurrently.
type budget struct {
	b bounds

	mu    sync.Mutex
	taken int64
	by    map[string]*share // "" is the share without identity
	freed chan struct{}     // closed when bytes are released; nil while no request waits
}

// share counts the memory of one identity's requests.
type share struct {
	bytes   int64
	visits  list.List // of *Visit, the oldest first, of the share without identity: the oldest are evicted
	answers list.List // of *Visit with a large unread answer, the oldest first
}

// errBusy refuses a request for which other requests leave no room.
var errBusy = Busy(http.StatusServiceUnavailable, "busy: too many large requests are running, try again when some have ended")

func newBudget(b bounds) *budget { return &budget{b: b, by: map[string]*share{}} }

// shareOf returns the share of an identity. The caller holds the mutex.
func (b *budget) shareOf(who string) *share {
	s := b.by[who]
	if s == nil {
		s = new(share)
		b.by[who] = s
	}
	return s
}

// checkRoom returns the reason why an identity can't have n more bytes, or nil. A few bytes are always available:
// others' memory is no reason to refuse a small request. The caller holds the mutex.
func (b *budget) checkRoom(who string, n int64) *Refused {
	own := int64(0)
	if s := b.by[who]; s != nil {
		own = s.bytes
	}
	most := b.b.held / 4
	if who == "" {
		most = b.b.heldUnproven
	}
	switch {
	case own+n > most && who == "":
		return errNoRoom
	case own+n > most:
		return Busy(http.StatusTooManyRequests, fmt.Sprintf("too much at once: the requests of one identity may hold %d MiB, try again when "+
			"some have ended", most>>20))
	case own+n > b.b.heldAlways && b.taken+n > b.b.held:
		return errBusy
	}
	return nil
}

// addHeld adds n bytes, which may be negative. The caller holds the mutex.
func (b *budget) addHeld(who string, n int64) {
	s := b.shareOf(who)
	s.bytes += n
	b.taken += n
	if s.bytes == 0 && s.visits.Len() == 0 && s.answers.Len() == 0 {
		delete(b.by, who)
	}
	if n < 0 && b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// waitForRoom calls f with the mutex held, until it returns nil or the request has waited for too long.
func (b *budget) waitForRoom(ctx context.Context, v *Visit, f func() *Refused) error {
	for {
		b.mu.Lock()
		why := f()
		if why == nil {
			b.mu.Unlock()
			return nil
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		if !v.boundWait(func(late <-chan time.Time) bool {
			select {
			case <-freed:
				return true
			case <-late:
			case <-ctx.Done():
			}
			return false
		}) {
			return cmp.Or(context.Cause(ctx), error(why))
		}
	}
}
