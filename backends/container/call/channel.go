package call

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hashicorp/yamux"
)

// channel is the server's end of a command's channel.
type channel struct {
	stream *yamux.Stream
	conn   *Conn
	closed atomic.Bool
	ended  atomic.Bool // the program has closed its end
}

func (p *channel) Read(b []byte) (int, error) {
	n, err := p.stream.Read(b)
	return n, p.mapError(err, io.EOF)
}

func (p *channel) Write(b []byte) (int, error) {
	if p.ended.Load() {
		return 0, io.ErrClosedPipe
	}
	n, err := p.stream.Write(b)
	return n, p.mapError(err, io.ErrClosedPipe)
}

// mapError translates an error of the stream for the holder of the channel.
func (p *channel) mapError(err, end error) error {
	if err == nil {
		return nil
	}
	select {
	case <-p.conn.done:
		return p.conn.lostError(nil)
	default:
	}
	switch {
	case p.closed.Load():
		return io.ErrClosedPipe
	case errors.Is(err, io.EOF), errors.Is(err, yamux.ErrConnectionReset):
		p.ended.Store(true)
		return end
	}
	return p.conn.lostError(err)
}

// Close ends both directions, and what waits for them.
func (p *channel) Close() error {
	if !p.closed.Swap(true) {
		p.stream.SetDeadline(expired)
		p.stream.Close()
	}
	return nil
}
