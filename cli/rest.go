package cli

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

const (
	restEvery = time.Second           // how often a server looks whether it has nothing to do
	restCPU   = 10 * time.Millisecond // of CPU time, in that time, are nothing: timers and watchers of idle sessions
	restAfter = 10                    // how often in a row it must have had nothing to do, so that an agent's next call finds all in place
)

// resting has a server that has nothing to do give back the memory that it needed when it had: first
// once it is up, as its start takes more than all that follows, and then after each time of work. What
// it wants again comes back page by page. It ends with stop.
func resting(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := func() {}
		if os.Getenv("GOGC") == "" {
			look = newGarbage().look
		}
		rest(ctx, look, giveBack)
	}()
	return func() {
		cancel()
		<-done
	}
}

// rest calls look often, and give when times without work follow one with; after the start, the first will do.
func rest(ctx context.Context, look, give func()) {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	before := cpuTime()
	left, wait := 1, 1
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		look()
		now := cpuTime()
		if now-before > restCPU {
			left = wait
		} else if left--; left == 0 {
			give()
			wait = restAfter
			now = cpuTime() // giving is no work
		}
		before = now
	}
}

func giveBack() {
	debug.FreeOSMemory()
	dropProgram()
}
