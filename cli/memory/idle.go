package memory

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	idleEvery = time.Second           // how often a server looks whether it has nothing to do
	idleCPU   = 10 * time.Millisecond // of CPU time, in that time, are nothing: timers and watchers of idle sessions
	idleAfter = 10                    // how often in a row it must have had nothing to do, so that an agent's next call finds all in place
)

// ReleaseWhenIdle has a server that has nothing to do give back the memory that it needed when it had: first
// once it is up, as its start takes more than all that follows, and then after each time of work. What
// it wants again comes back page by page. It returns when ctx ends.
func ReleaseWhenIdle(ctx context.Context) {
	watchIdle(ctx, func() {
		debug.FreeOSMemory()
		dropProgram()
	})
}

// watchIdle calls release when times without work follow one with; after the start, the first will do.
func watchIdle(ctx context.Context, release func()) {
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	before := cpuTime()
	left, wait := 1, 1
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := cpuTime()
		if now-before > idleCPU {
			left = wait
		} else if left--; left == 0 {
			release()
			wait = idleAfter
			now = cpuTime() // giving is no work
		}
		before = now
	}
}
