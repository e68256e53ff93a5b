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

// Close ends both directions, and pending reads and writes.
func (p *channel) Close() error {
	if !p.closed.Swap(true) {
		p.stream.SetDeadline(expired)
		p.stream.Close()
	}
	return nil
}

// copyInput sends the caller's input to a command. A Read of the caller may last longer than the command.
func copyInput(to *yamux.Stream, from io.Reader) {
	io.CopyBuffer(onlyWriter{to}, from, make([]byte, chunk))
	to.Close()
}

// onlyWriter and onlyReader hide methods that io.Copy would use with larger buffers.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// output is a stream of a command that goes to a writer of the caller.
type output struct {
	from  *yamux.Stream
	to    io.Writer
	busy  *atomic.Int32
	done  chan struct{}
	short bool // it did not come to its end
}

// copy moves all output, and continues when the writer fails.
func (o *output) copy(begun <-chan struct{}) {
	defer close(o.done)
	<-begun
	buf := make([]byte, 2*chunk)
	for lost := false; ; {
		n, err := o.from.Read(buf)
		if n > 0 && !lost {
			o.busy.Add(1)
			m, err := o.to.Write(buf[:n])
			o.busy.Add(-1)
			lost = err != nil || m != n
		}
		if err != nil {
			o.short = !errors.Is(err, io.EOF)
			return
		}
	}
}
