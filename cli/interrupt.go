package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

// An interruption is the cause of a context that a signal ended.
type interruption struct{ syscall.Signal }

func (i interruption) Error() string {
	names := map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP", syscall.SIGQUIT: "SIGQUIT"}
	return cmp.Or(names[i.Signal], i.Signal.String())
}

// untilSignal returns a context that a signal ends, for commands that then have nothing to put in order.
func untilSignal(c *cli.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
}

var errNoReader = errors.New("nobody reads the output any more")

// interruptible returns a context that ends with the first signal that asks us to. A second one
// ends the process at once; the kernel ends the sandbox with it.
func interruptible(parent context.Context) (context.Context, context.CancelCauseFunc) {
	return interruptibleAfter(parent, func(syscall.Signal) bool { return false }, func() {})
}

// interruptibleAfter is interruptible, but for two signals at most that send takes, as it says: they are for a program that may
// end by itself then, or is killed. last is called just before a further one ends the process.
func interruptibleAfter(parent context.Context, send func(syscall.Signal) bool, last func()) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // nohup and background jobs keep what they were given
			signal.Notify(signals, s)
		}
	}
	// A closed pipe is to be an error of the write, which ends the run in good order. Being told of
	// the signal, instead of ignoring it, leaves its default to the programs that we start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		first := <-signals
		for n := 0; n < 2 && send(first.(syscall.Signal)); n++ {
			first = <-signals
		}
		cancel(interruption{first.(syscall.Signal)})
		second := <-signals
		last()
		os.Exit(exit.Signalled + int(second.(syscall.Signal)))
	}()
	return ctx, cancel
}

// A pipe writes to where our own output goes. When its reader has gone, as head(1) does, the run
// is ended: other programs die of SIGPIPE then.
type pipe struct {
	w      io.Writer
	broken context.CancelCauseFunc
	mu     sync.Mutex
	err    error // of the first write that failed
}

func (o *pipe) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err == nil {
		return n, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	if errors.Is(err, syscall.EPIPE) {
		o.broken(errNoReader)
	}
	return n, err
}

func (o *pipe) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
