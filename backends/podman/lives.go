package podman

import (
	"context"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// lives are the containers that this process made and has not removed: they say when a container was
// started, which Podman can only be asked again and again.
type lives struct {
	mu   sync.Mutex
	byID map[string]*life
}

type life struct {
	made    time.Time
	started chan struct{} // closed then; nil if others made it
	removed chan struct{} // likewise, by us
	once    sync.Once
}

func (l *lives) begin(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[string]*life{}
	}
	l.byID[id] = &life{made: time.Now(), started: make(chan struct{}), removed: make(chan struct{})}
}

// of returns what is known of one. Of one that others made, that is nothing.
func (l *lives) of(id string) *life {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byID[id]; one != nil {
		return one
	}
	return &life{made: time.Now().Add(-time.Hour)}
}

func (l *lives) start(id string) {
	if one := l.of(id); one.started != nil {
		one.once.Do(func() { close(one.started) })
	}
}

func (l *lives) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byID[id]; one != nil {
		close(one.removed)
		delete(l.byID, id)
	}
}

// wait returns when one that was not started may have been, or may be gone.
func (l *life) wait(ctx context.Context) {
	started := l.started
	often := 250 * time.Millisecond
	select {
	case <-started:
		started = nil // it was, and Podman does not say so yet
		often = 5 * time.Millisecond
	default:
		if started != nil {
			often = 5 * time.Second // we will hear: only a removal by somebody else has to be found
		}
	}
	select {
	case <-started:
	case <-l.removed:
		engine.Pause(ctx, 5*time.Millisecond)
	case <-ctx.Done():
	case <-time.After(often):
	}
}
