package process

import (
	"runtime"
	"sync"
)

// teardowns are the removals of sandboxes, a few at a time: the kernel takes namespaces, mounts and filters apart behind
// locks of the whole host, and thousands at once have kept it from all else.
type teardowns struct {
	room chan struct{}
	all  sync.WaitGroup
}

func newTeardowns() teardowns { return teardowns{room: make(chan struct{}, 2*runtime.NumCPU())} }

// do removes one behind the caller's back, who waits where there is no room.
func (e *teardowns) do(end func()) {
	select {
	case e.room <- struct{}{}:
		e.all.Go(func() {
			defer e.leave()
			end()
		})
	default:
		e.wait(end)
	}
}

// wait removes one when there is room, and returns when it is gone.
func (e *teardowns) wait(end func()) {
	e.room <- struct{}{}
	defer e.leave()
	end()
}

func (e *teardowns) leave() { <-e.room }
