package mcp

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestWorkers has more jobs at once than may wait: all are done at once, few workers stay, and none after the end.
func TestWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	end := make(chan struct{})
	w := newWorkers(end)
	for range 3 {
		var begun, over sync.WaitGroup
		hold := make(chan struct{})
		for range 5 * maxIdle {
			begun.Add(1)
			over.Add(1)
			w.do(func() { begun.Done(); <-hold; over.Done() })
		}
		begun.Wait() // none waits for another to end
		close(hold)
		over.Wait()
	}
	settles := func(limit int) {
		hosttest.Until(t, fmt.Sprintf("there are %d at most", limit), func() bool { return runtime.NumGoroutine() <= before+limit })
	}
	settles(maxIdle)
	close(end)
	settles(0)
}
