package client

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// Attach implements [container.Engine].
func (c *Client) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	var r moby.ContainerAttachResult
	err := c.Send(ctx, func(l Link) (err error) {
		r, err = l.ContainerAttach(ctx, id, moby.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
		return err
	})
	if err != nil {
		return nil, c.Explain("attach to container "+id, err)
	}
	return &attached{Reader: demultiplex(r.Reader, stderr), hijacked: &r.HijackedResponse}, nil
}

// attached is a connection to the standard streams of a container.
type attached struct {
	io.Reader
	hijacked *moby.HijackedResponse
	once     sync.Once
}

func (a *attached) Write(b []byte) (int, error) { return a.hijacked.Conn.Write(b) }

// SetWriteDeadline bounds Write, since the reader may stop reading.
func (a *attached) SetWriteDeadline(t time.Time) error { return a.hijacked.Conn.SetWriteDeadline(t) }

// CloseWrite ends the container's input.
func (a *attached) CloseWrite() error { return a.hijacked.CloseWrite() }

// Close ends the container's input, and the connection.
func (a *attached) Close() error {
	a.once.Do(func() {
		_ = a.CloseWrite()
		a.hijacked.Close()
	})
	return nil
}

// demultiplex returns the standard output of a container without a terminal. from carries all its streams in
// frames: a byte for the stream, three of padding, and a length of four bytes (big endian). Standard error is
// written to stderr as it arrives; an error of stderr loses only its own text. An end within a frame is
// [io.ErrUnexpectedEOF].
func demultiplex(from io.Reader, stderr io.Writer) io.Reader {
	stderr = cmp.Or(stderr, io.Discard)
	return &demultiplexer{from: from, stderr: lossy{stderr}}
}

// demultiplexer keeps no frame in memory, since a frame may announce any length.
type demultiplexer struct {
	from   io.Reader
	stderr lossy
	header [8]byte
	left   uint32 // bytes of the current frame of standard output
}

// Read implements [io.Reader].
func (o *demultiplexer) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for o.left == 0 {
		if err := o.frame(); err != nil {
			return 0, err
		}
	}
	n, err := o.from.Read(b[:min(uint64(len(b)), uint64(o.left))])
	o.left -= uint32(n)
	if err == io.EOF && o.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// frame reads the next header, and consumes a frame of another stream than standard output.
func (o *demultiplexer) frame() error {
	// An end between two frames is io.EOF; within one it is io.ErrUnexpectedEOF.
	if _, err := io.ReadFull(o.from, o.header[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(o.header[4:])
	switch o.header[0] {
	case 0, 1:
		o.left = size
		return nil
	case 2:
		_, err := io.CopyN(o.stderr, o.from, int64(size))
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	case 3: // an error of the engine
		text := make([]byte, min(size, engine.Longest))
		n, _ := io.ReadFull(o.from, text)
		return fmt.Errorf("read from the container: the engine says: %s", engine.OneLine(string(text[:n])))
	}
	return fmt.Errorf("read from the container: unknown stream %d", o.header[0])
}

// lossy ignores errors of its writer: lost standard error must not end the connection.
type lossy struct{ w io.Writer }

func (l lossy) Write(b []byte) (int, error) {
	_, _ = l.w.Write(b)
	return len(b), nil
}
