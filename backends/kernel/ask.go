package kernel

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"
)

// errDead is returned once the interpreter has ended.
var errDead = errors.New("the interpreter is dead")

// timeouts bound the wait for a reply, and the wait after an interrupt; 0 is DefaultGrace.
type timeouts struct{ limit, grace time.Duration }

// answer is a reply, or the event that replaces it.
type answer struct {
	reply
	stopped string // "timeout" or "cancelled": why the interpreter was interrupted
	dead    bool   // no reply will come
}

// acquire waits for the lock, first come first served.
func (k *Kernel) acquire(ctx context.Context) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-k.lock:
	case <-k.done:
		return nil, errDead
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case <-k.done:
		k.lock <- struct{}{}
		return nil, errDead
	default:
		return func() { k.lock <- struct{}{} }, nil
	}
}

// roundTrip sends a request and waits for its reply. After the limit, or when ctx ends, it interrupts the running
// code. Code that continues is killed together with the interpreter.
func (k *Kernel) roundTrip(ctx context.Context, id int64, frame []byte, p timeouts, tools *calls, show func(Bundle)) (a answer) {
	defer func() { <-tools.cancelAll() }()
	// A signal left over from another request would interrupt this one.
	select {
	case <-k.interrupt:
	default:
	}
	if c, ok := k.channel.(interface{ TryWrite([]byte) int }); ok {
		frame = frame[c.TryWrite(frame):]
	}
	var sent chan struct{}
	if len(frame) > 0 {
		sent = make(chan struct{})
		go func() {
			defer close(sent)
			k.channel.Write(frame) // if it fails, the interpreter is about to end
		}()
		defer func() { <-sent }() // a driver that doesn't read has been killed by then
	}
	timer := time.NewTimer(p.limit)
	defer timer.Stop()
	written, cancelled := sent, ctx.Done()
	var called <-chan struct{} // closed when an ended cell has no tool call left
	for interrupts := 0; a.Op == "" || written != nil || called != nil; {
		select {
		case <-written:
			written = nil
			continue
		case <-called:
			called = nil
			continue
		case <-k.large:
			continue
		case r := <-k.replies:
			if r.Op == "call" {
				if r.ID == id && a.Op == "" {
					tools.startCall(r)
				}
				continue
			}
			if a.store(r, id, show); a.Op != "" {
				called = tools.cancelAll()
			}
			continue
		case <-k.done:
			a.dead = true
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
		if interrupts++; interrupts > 2 {
			k.kill()
			<-k.done
			a.dead = true
			return a
		}
		// The first signal may have come too early, or the code swallowed it.
		k.requestInterrupt()
		timer.Reset(cmp.Or(p.grace, DefaultGrace) / 2)
	}
	return a
}

// store stores the first reply to request id.
func (a *answer) store(r reply, id int64, show func(Bundle)) {
	switch {
	case r.ID != id || a.Op != "":
	case r.Op != "display":
		a.reply = r
		a.Value.dropLongForms()
	case show != nil && len(r.Data) > 0:
		r.Data.dropLongForms()
		show(r.Data)
	}
}

// dropLongForms removes forms whose names are too long for MIME types.
func (b Bundle) dropLongForms() {
	maps.DeleteFunc(b, func(form, _ string) bool { return len(form) > maxFormName })
}

// requestInterrupt interrupts running code.
func (k *Kernel) requestInterrupt() {
	select {
	case k.interrupt <- struct{}{}:
	default:
	}
}
