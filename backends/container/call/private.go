package call

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hashicorp/yamux"
)

// private is a command's channel.
type private struct {
	stream *yamux.Stream
	line   *Line
	closed atomic.Bool
	ended  atomic.Bool // the program has closed its end
}

func (p *private) Read(b []byte) (int, error) {
	n, err := p.stream.Read(b)
	return n, p.explain(err, io.EOF)
}

func (p *private) Write(b []byte) (int, error) {
	if p.ended.Load() {
		return 0, io.ErrClosedPipe
	}
	n, err := p.stream.Write(b)
	return n, p.explain(err, io.ErrClosedPipe)
}

// explain is what an error of the stream means to whoever holds the channel.
func (p *private) explain(err, end error) error {
	if err == nil {
		return nil
	}
	select {
	case <-p.line.gone:
		return p.line.lost(nil)
	default:
	}
	switch {
	case p.closed.Load():
		return io.ErrClosedPipe
	case errors.Is(err, io.EOF), errors.Is(err, yamux.ErrConnectionReset):
		p.ended.Store(true)
		return end
	}
	return p.line.lost(err)
}

// Close ends both directions, and what waits for them.
func (p *private) Close() error {
	if !p.closed.Swap(true) {
		p.stream.SetDeadline(expired)
		p.stream.Close()
	}
	return nil
}
