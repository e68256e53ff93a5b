package memory

import (
	"context"
	"runtime/debug"
	"time"
)

const (
	idleEvery = time.Second           // interval at which a server checks whether it is idle
	idleCPU   = 10 * time.Millisecond // CPU time per interval that counts as idle: timers and watchers of idle sessions
	idleAfter = 10                    // consecutive idle intervals before memory is released, so that an agent's next call finds it in place
)

// ReleaseWhenIdle returns memory to the system when a server becomes idle: first after the start, which uses more than
// anything later, and then after each period of work. Pages that are needed again come back one by one. It returns when
// ctx ends.
func ReleaseWhenIdle(ctx context.Context) {
	watchIdle(ctx, func() {
		debug.FreeOSMemory()
		dropProgram()
	})
}

// watchIdle calls release once idle intervals follow a period of work; after the start, the first will do.
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
			now = cpuTime() // the release itself does not count as work
		}
		before = now
	}
}
