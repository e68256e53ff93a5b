package command

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

// Interruption is the cause of a context that a signal ended.
type Interruption struct{ syscall.Signal }

func (i Interruption) Error() string {
	names := map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP",
		syscall.SIGQUIT: "SIGQUIT"}
	return cmp.Or(names[i.Signal], i.Signal.String())
}

// UntilSignal returns a context that SIGINT or SIGTERM ends, for commands that need no cleanup. A second signal ends
// the process at once.
func UntilSignal(c *cli.Context) (context.Context, context.CancelFunc) {
	return UntilSignals(c, syscall.SIGINT, syscall.SIGTERM)
}

// UntilSignals is UntilSignal for other signals.
func UntilSignals(c *cli.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(c.Context, signals...)
	undo := context.AfterFunc(ctx, func() {
		stop()
		limitWrites(c.Context)
	})
	return ctx, func() { undo(); stop() }
}

type writesKey struct{}

// withWriteLimit returns a context whose signals, through the functions of this file, call end.
func withWriteLimit(ctx context.Context, end func()) context.Context {
	return context.WithValue(ctx, writesKey{}, end)
}

func limitWrites(ctx context.Context) {
	if end, ok := ctx.Value(writesKey{}).(func()); ok {
		end()
	}
}

// ErrNoReader is the cause of a context that ends because the reader of the output has gone.
var ErrNoReader = errors.New("the reader of the output has gone")

// Interruptible returns a context that ends with the first SIGINT, SIGTERM, SIGHUP or SIGQUIT. A second signal
// ends the process at once; the kernel ends the sandbox with it.
func Interruptible(parent context.Context) (context.Context, context.CancelCauseFunc) {
	return InterruptibleAfter(parent, func(syscall.Signal) bool { return false }, func() {})
}

// InterruptibleAfter is Interruptible, except for up to two signals that send accepts: they are forwarded to a program
// that may end by itself. last is called before a further signal ends the process.
func InterruptibleAfter(parent context.Context, send func(syscall.Signal) bool, last func()) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // nohup and background jobs keep their dispositions
			signal.Notify(signals, s)
		}
	}
	// A closed pipe must be an error of the write, so that the run ends in good order. To catch the signal, instead of
	// ignoring it, leaves its default to the programs that we start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		first := <-signals
		for n := 0; n < 2 && send(first.(syscall.Signal)); n++ {
			first = <-signals
		}
		cancel(Interruption{first.(syscall.Signal)})
		limitWrites(parent)
		second := <-signals
		last()
		os.Exit(exit.Signalled + int(second.(syscall.Signal)))
	}()
	return ctx, cancel
}
