package docker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/moby/moby/client"
)

func (e *engine) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	r, err := l.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, l.explain("attach to container "+id, err)
	}
	if stderr == nil {
		stderr = io.Discard
	}
	return &attached{hijacked: &r.HijackedResponse, streams: streams{from: r.Reader, stderr: stderr}}, nil
}

// attached is a connection with the standard streams of a container.
type attached struct {
	streams
	hijacked *client.HijackedResponse
	once     sync.Once
}

func (a *attached) Write(b []byte) (int, error) { return a.hijacked.Conn.Write(b) }

// Close ends the container's input, and the connection.
func (a *attached) Close() error {
	a.once.Do(func() {
		_ = a.hijacked.CloseWrite()
		a.hijacked.Close()
	})
	return nil
}

// streams takes apart what comes from a container without a terminal: frames of a byte that says which
// stream, three bytes of nothing, and four of how long it is. The library's way keeps each frame in
// memory, of whatever length it claims to be; this hands on what has come.
type streams struct {
	from   io.Reader
	stderr io.Writer
	header [8]byte
	left   uint32 // of the frame of standard output that is being read
}

// Read reads standard output. What comes on standard error in between goes to stderr.
func (s *streams) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for s.left == 0 {
		if err := s.frame(); err != nil {
			return 0, err
		}
	}
	n, err := s.from.Read(b[:min(uint64(len(b)), uint64(s.left))])
	s.left -= uint32(n)
	if err == io.EOF && s.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// frame reads the next header, and all of a frame that is not of standard output.
func (s *streams) frame() error {
	// The end between two frames is the end; within one it is io.ErrUnexpectedEOF.
	if _, err := io.ReadFull(s.from, s.header[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(s.header[4:])
	switch s.header[0] {
	case 0, 1:
		s.left = size
		return nil
	case 2:
		_, err := io.CopyN(lossy{s.stderr}, s.from, int64(size))
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	case 3: // the engine's own words
		said := make([]byte, min(size, longest))
		n, _ := io.ReadFull(s.from, said)
		return fmt.Errorf("read from the container: Docker says: %s", plain(string(said[:n])))
	}
	return fmt.Errorf("read from the container: Docker sent a frame for a stream %d, which there is not", s.header[0])
}

// lossy goes on when its writer fails: standard error is not worth the connection.
type lossy struct{ w io.Writer }

func (l lossy) Write(b []byte) (int, error) {
	_, _ = l.w.Write(b)
	return len(b), nil
}
