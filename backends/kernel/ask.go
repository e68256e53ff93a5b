package kernel

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// errDead is why nothing more can be run.
var errDead = errors.New("the interpreter is dead")

// patience is how long an answer may take, and how long after being interrupted; 0 is DefaultGrace.
type patience struct{ limit, grace time.Duration }

// answer is a reply, or what came instead.
type answer struct {
	reply
	stopped string // "timeout" or "cancelled": why the interpreter was interrupted
	dead    bool   // there will be no reply
}

// enter waits for its turn, first come first served.
func (k *Kernel) enter(ctx context.Context) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-k.turn:
	case <-k.done:
		return nil, errDead
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case <-k.done:
		k.turn <- struct{}{}
		return nil, errDead
	default:
		return func() { k.turn <- struct{}{} }, nil
	}
}

// ask sends a request and waits for its reply. When that takes too long, or ctx ends, it interrupts
// what runs; what then doesn't end is killed, and with it the interpreter.
func (k *Kernel) ask(ctx context.Context, id int64, frame []byte, p patience, show func(Bundle)) (a answer) {
	written := make(chan struct{})
	sent := (<-chan struct{})(written)
	go func() {
		defer close(written)
		k.channel.Write(frame) // should it fail, the interpreter is about to be dead
	}()
	// What was sent when something else ran would interrupt the wrong thing.
	select {
	case <-k.interrupt:
	default:
	}
	grace := cmp.Or(p.grace, DefaultGrace)
	timer := time.NewTimer(p.limit)
	defer timer.Stop()
	cancelled := ctx.Done()
	interrupts := 0
	for a.Op == "" || sent != nil { // a reply before all was asked is no reason to leave the writer alone
		select {
		case <-sent:
			sent = nil
			continue
		case r := <-k.replies:
			if r.ID != id {
				continue
			}
			if r.Op == "display" {
				if show != nil && len(r.Data) > 0 {
					show(r.Data)
				}
				continue
			}
			a.reply = r
			continue
		case <-k.done:
			a.dead = true
			<-written
			return a
		case <-cancelled:
			cancelled = nil
			if a.stopped != "" {
				continue
			}
			a.stopped = "cancelled"
		case <-timer.C:
			a.stopped = cmp.Or(a.stopped, "timeout")
		}
		if interrupts == 2 {
			k.kill()
			<-k.done
			a.dead = true
			<-written
			return a
		}
		// The second time is for a signal that came too early, or that the code swallowed.
		interrupts++
		timer.Reset(grace / 2)
		select {
		case k.interrupt <- struct{}{}:
		default:
		}
	}
	return a
}
