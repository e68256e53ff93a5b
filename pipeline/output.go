package pipeline

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
)

// ProgramEnd holds the results of a program after all of its processes ended.
type ProgramEnd struct {
	backends.Result
	Stdout, Stderr *output.Stream
	Displays       *output.DisplayQueue
	Measure        func(*ProgramEnd) // waits for a cell's usage; nil if it is known
	ReaderTimeout  time.Duration     // see Stopper.ReaderTimeout
}

// NewProgramEnd prepares the results of a program that is about to run, and stores up to keep bytes of each stream.
// whole and display are as in run.Streams.
func NewProgramEnd(keep int64, stdout, stderr io.Writer, whole bool, display func(kernel.Bundle)) *ProgramEnd {
	return &ProgramEnd{Stdout: output.NewStream(keep, stdout, whole), Stderr: output.NewStream(keep, stderr, whole),
		Displays: output.NewDisplayQueue(display)}
}

// skipWriter is a writer to a stream that stores the beginning of an output. The backend may discard and count the
// rest.
type skipWriter struct {
	io.Writer
	sink *output.Stream
}

// Spare implements [backends.Sparing]. The stream follows the redactor, so it is full of redacted text that later
// output can't change.
func (s skipWriter) Spare() *backends.Skip {
	if !s.sink.IsFull() {
		return nil
	}
	return &backends.Skip{Done: s.sink.Skip}
}

// OutputWriters returns the writers for a program's output, which redact it before it is cut. close flushes the text
// that they hold back.
func (v Redactor) OutputWriters(o *ProgramEnd) (stdout, stderr io.Writer, close func() error) {
	masked1, masked2 := v.Tokens.writer(o.Stdout), v.Tokens.writer(o.Stderr)
	clean1, clean2 := v.writer(masked1), v.writer(masked2)
	return skipWriter{clean1, o.Stdout}, skipWriter{clean2, o.Stderr}, func() error {
		defer o.Displays.Close()
		defer o.Stderr.Close()
		defer o.Stdout.Close()
		return errors.Join(clean1.Close(), clean2.Close(), masked1.Close(), masked2.Close())
	}
}

// StopWaitingForReaders lets the program end without waiting for slow readers of the whole output.
func (o *ProgramEnd) StopWaitingForReaders() {
	o.Stdout.StopWaitingForReaders()
	o.Stderr.StopWaitingForReaders()
}

// WaitForReaders waits until the caller's writers have all output of the result. It comes last, after the sandbox and
// its slots are released: a writer that blocks delays only its own caller, up to the end of ctx or the run's
// ReaderTimeout.
func (o *ProgramEnd) WaitForReaders(ctx context.Context) {
	if o == nil {
		return
	}
	if o.ReaderTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.ReaderTimeout)
		defer cancel()
	}
	for _, delivered := range []chan struct{}{o.Stdout.Delivered, o.Stderr.Delivered, o.Displays.Delivered} {
		select {
		case <-delivered:
			continue
		case <-ctx.Done():
		}
		select {
		case <-delivered:
		case <-time.After(200 * time.Millisecond):
		}
	}
}
