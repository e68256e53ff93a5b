package podman

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// ownContainers are the containers that this process made and has not removed: they tell when a container was started,
// for which Podman would have to be polled.
type ownContainers struct {
	mu   sync.Mutex
	byID map[string]*ownContainer
}

type ownContainer struct {
	made    time.Time
	started chan struct{} // closed when it was started; nil if others made it
	removed chan struct{} // closed when we have removed it
	once    sync.Once
	pidfd   *os.File // its first process, once that was found; nil where it can't be
}

func (l *ownContainers) add(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID[id] = &ownContainer{made: time.Now(), started: make(chan struct{}), removed: make(chan struct{})}
}

// get returns the record of a container, an empty one if others made it.
func (l *ownContainers) get(id string) *ownContainer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byID[id]; one != nil {
		return one
	}
	return &ownContainer{made: time.Now().Add(-time.Hour)}
}

func (l *ownContainers) markStarted(id string) {
	if one := l.get(id); one.started != nil {
		one.once.Do(func() { close(one.started) })
	}
}

func (l *ownContainers) removed(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byID[id]; one != nil {
		close(one.removed)
		delete(l.byID, id)
		one.pidfd.Close() // of nil, too
	}
}

// holdInit opens the first process of a container, until it is removed.
func (l *ownContainers) holdInit(one *ownContainer, pid int) *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.pidfd == nil {
		one.pidfd = openPidfd(pid)
	}
	return one.pidfd
}

// killInit kills the first process of a container if it is open, and reports whether it has ended.
func (l *ownContainers) killInit(id string) bool {
	var first *os.File
	l.mu.Lock()
	if one := l.byID[id]; one != nil {
		first = one.pidfd
	}
	l.mu.Unlock()
	return first != nil && killProcess(first)
}

// notStarted reports whether a container of ours was not started yet.
func (l *ownContainer) notStarted() bool {
	select {
	case <-l.started:
		return false
	default:
		return l.started != nil
	}
}

// wait returns when a container that was not started may have been, or may be gone.
func (l *ownContainer) wait(ctx context.Context) {
	started := l.started
	often := 250 * time.Millisecond
	select {
	case <-started:
		started = nil // it was, and Podman does not say so yet
		often = 5 * time.Millisecond
	default:
		if started != nil {
			often = 5 * time.Second // markStarted will tell: only a removal by others has to be found
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
