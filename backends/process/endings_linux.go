package process

import (
	"runtime"
	"sync"
)

// endings are the removals of sandboxes that nobody waits for, a few at a time: who is faster than they are does them.
type endings struct {
	room chan struct{}
	all  sync.WaitGroup
}

func newEndings() endings { return endings{room: make(chan struct{}, 2*runtime.NumCPU())} }

func (e *endings) do(end func()) {
	select {
	case e.room <- struct{}{}:
		e.all.Go(func() {
			end()
			<-e.room
		})
	default:
		end()
	}
}
