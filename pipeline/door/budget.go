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

// budget is the memory that requests under way hold, of all doors and of all who ask. Each identity has a share, and
// those who have not proved theirs have one together. Who asks for more than there is waits shortly, and is refused
// then. It may be used concurrently.
type budget struct {
	b bounds

	mu    sync.Mutex
	taken int64
	by    map[string]*share // "" is that of the unproven
	freed chan struct{}     // closed when something is given back; nil while nobody waits
}

// share is what the requests of one identity hold.
type share struct {
	bytes   int64
	visits  list.List // of *Visit, the oldest first, of the unproven: they are bounded by ending these
	answers list.List // of *Visit, whose clients are slow to read a large answer, the longest first
}

// errBusy is why a request ends for which the requests of others leave no room.
var errBusy = Busy(http.StatusServiceUnavailable, "busy: too many large requests are under way, try again when some have ended")

func newBudget(b bounds) *budget { return &budget{b: b, by: map[string]*share{}} }

// shareOf returns the share of an identity. The mutex is held.
func (b *budget) shareOf(who string) *share {
	s := b.by[who]
	if s == nil {
		s = new(share)
		b.by[who] = s
	}
	return s
}

// checkRoom returns why an identity can't have n more bytes, or nil. A few bytes there always are: what others hold is
// no reason to refuse a small request. The mutex is held.
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
		return Busy(http.StatusTooManyRequests, fmt.Sprintf("too much at once: the requests of one identity hold %d MiB at most, try again when some have ended", most>>20))
	case own+n > b.b.heldAlways && b.taken+n > b.b.held:
		return errBusy
	}
	return nil
}

// addHeld notes n bytes, also less than none. The mutex is held.
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

// waitForRoom calls f, which holds the mutex, until it returns nil, or the request of a visit has waited for room long
// enough.
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
