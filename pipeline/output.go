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

// ProgramEnd holds what a program left when all of its processes had ended.
type ProgramEnd struct {
	backends.Result
	Stdout, Stderr *output.Stream
	Displays       *output.DisplayQueue
	Measure        func(*ProgramEnd) // waits for a cell's usage; nil where it is known
	ReaderTimeout  time.Duration     // see Stop.ReaderTimeout
}

// NewProgramEnd returns the end of a program that is about to run: keep bytes of each stream are kept. whole and display
// are as in run.Streams.
func NewProgramEnd(keep int64, stdout, stderr io.Writer, whole bool, display func(kernel.Bundle)) *ProgramEnd {
	return &ProgramEnd{Stdout: output.NewStream(keep, stdout, whole), Stderr: output.NewStream(keep, stderr, whole), Displays: output.NewDisplayQueue(display)}
}

// skipWriter is a writer to a stream that keeps the beginning of an output: how much comes after that is counted elsewhere,
// where it can be.
type skipWriter struct {
	io.Writer
	sink *output.Stream
}

// Spare implements [backends.Sparing]. The stream stands behind the redactor, so it is full of text without secrets:
// nothing that comes later changes what was kept.
func (s skipWriter) Spare() *backends.Skip {
	if !s.sink.IsFull() {
		return nil
	}
	return &backends.Skip{Done: s.sink.Skip}
}

// OutputWriters returns what a program writes its output to: secrets are taken out of that before it is cut. close lets out
// what they hold back.
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

// StopWaitingForReaders has slow readers of the whole output hold nothing up once the program has been ended.
func (o *ProgramEnd) StopWaitingForReaders() {
	o.Stdout.StopWaitingForReaders()
	o.Stderr.StopWaitingForReaders()
}

// WaitForReaders waits until the caller's writers have all output of the result. It comes last, when the
// sandbox and its slot in the queue are given back: a writer that blocks holds up only its own
// caller, and only as long as that one wants to wait, or the run's Stop says.
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
