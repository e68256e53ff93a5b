package control

import (
	"context"
	"net/http"
	"sync"
)

// Bounds of the requests that read much of the log: each can keep a core busy for seconds. Further ones wait.
const (
	maxReads    = 6 // in all
	maxOwnReads = 2 // of one person
)

// semaphore bounds how much is under way, of one person and in all.
type semaphore struct {
	mu   sync.Mutex
	n    int
	by   map[string]int
	free chan struct{} // closed when somebody has ended
}

// take waits for room, until ctx ends.
func (t *semaphore) take(ctx context.Context, who string) (give func(), err error) {
	for {
		t.mu.Lock()
		if t.by == nil {
			t.by, t.free = map[string]int{}, make(chan struct{})
		}
		if t.n < maxReads && t.by[who] < maxOwnReads {
			t.n++
			t.by[who]++
			t.mu.Unlock()
			return func() { t.give(who) }, nil
		}
		free := t.free
		t.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (t *semaphore) give(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n--
	if t.by[who]--; t.by[who] == 0 {
		delete(t.by, who)
	}
	close(t.free)
	t.free = make(chan struct{})
}

// bounded has requests wait for room. Those at the server's own socket need none: its user can have it do anything.
func (a *API) bounded(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by := askerOf(r.Context())
		if by.peer {
			f(w, r)
			return
		}
		give, err := a.reads.take(r.Context(), by.user)
		if err != nil {
			deny(w, failure(http.StatusServiceUnavailable, "the server is too busy to answer"))
			return
		}
		defer give()
		f(w, r)
	}
}
