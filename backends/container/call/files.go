package call

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// files is the workspace in the container. Its calls have no context: an init that is silent for ioTimeout loses the
// connection.
type files struct{ conn *Conn }

// Put implements [backends.Files].
func (f files) Put(name string, mode uint32, r io.Reader) error {
	stream, err := f.conn.openRequest(request{Op: opPut, Put: &put{[]byte(name), mode}})
	if err != nil {
		return err
	}
	defer stream.Close()
	var m response
	answered := make(chan error, 1)
	go func() {
		answered <- read(stream, &m, maxInitMessage)
		stream.SetWriteDeadline(expired) // it may not want the rest
	}()
	broken := fill(stream, r, answered)
	stream.SetReadDeadline(time.Now().Add(ioTimeout))
	switch err := <-answered; {
	case err != nil:
		return f.conn.lostError(err)
	case broken != nil:
		return fmt.Errorf("write %s: %w", name, broken)
	}
	return m.Failure.err()
}

// fill sends a file's content. Its error is the reader's; the end of the content is then missing.
func fill(stream *yamux.Stream, r io.Reader, answered chan error) error {
	to := newChunkWriter(stream, chunk)
	buf := make([]byte, chunk)
	for {
		n, err := r.Read(buf)
		stream.SetWriteDeadline(time.Now().Add(ioTimeout))
		select {
		case e := <-answered:
			answered <- e
			return nil
		default:
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return nil // whoever waits for the answer learns why
			}
		}
		if err == io.EOF {
			to.end()
			return nil
		}
		if err != nil {
			stream.Close()
			return err
		}
	}
}

// maxUnacknowledged is how many files an init may list ahead of the server, and ackEvery after how
// many the server acknowledges them: an init remembers the files that can be opened at once, and they
// must still be there when the server asks for them.
const (
	maxUnacknowledged = 2048
	ackEvery          = 256
)

// The server's one request on a walk's stream, of one byte.
const walkMore = 'm' // ackEvery more entries were handled

// Each implements [backends.Files].
func (f files) Each(ctx context.Context, do func(backends.File) error) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	stream, err := f.conn.openRequest(request{Op: opEach})
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { stream.SetReadDeadline(expired) })
	defer stop()
	from := bufio.NewReader(onlyReader{stream})
	for n := 1; ; n++ {
		m, err := f.readResponse(ctx, stream, from)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err() // and closing the stream ends the walk
		case err != nil:
			return 0, f.conn.lostError(err)
		case m.Done:
			return max(m.Skipped, 0), m.Failure.err()
		}
		file, err := f.checked(m.File)
		if err != nil {
			return 0, err
		}
		if err := do(file); err != nil {
			return max(m.Skipped, 0), err
		}
		if n%ackEvery == 0 {
			stream.SetWriteDeadline(time.Now().Add(ioTimeout))
			if _, err := stream.Write([]byte{walkMore}); err != nil {
				return 0, f.conn.lostError(err)
			}
		}
	}
}

// readResponse waits for the next entry of a walk.
func (f files) readResponse(ctx context.Context, stream *yamux.Stream, from *bufio.Reader) (m response, err error) {
	stream.SetReadDeadline(time.Now().Add(ioTimeout))
	if ctx.Err() != nil { // and its deadline was just undone
		return m, ctx.Err()
	}
	return m, read(from, &m, maxInitMessage)
}

// checked converts an entry into a file that can be opened. A name that no workspace has breaks the protocol.
func (f files) checked(l *fileEntry) (backends.File, error) {
	const longest = 64 << 10 // bytes, of a path that was made directory by directory
	if l == nil {
		return backends.File{}, f.conn.protocolError("a walk without files")
	}
	name := string(l.Name)
	if name == "" || len(name) > longest || path.Clean(name) != name || name[0] == '/' || name == "." || name == ".." ||
		strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) || l.Size < 0 || l.Nsec < 0 || l.Nsec > 1e9 {
		return backends.File{}, f.conn.protocolError("a file that no workspace has")
	}
	which := *l
	return backends.File{
		Name: name, Size: l.Size, Mode: l.Mode & 0o777, Changed: time.Unix(l.Sec, l.Nsec),
		Open: func() (io.ReadCloser, error) { return f.open(which) },
	}, nil
}

// open opens a file that was listed.
func (f files) open(l fileEntry) (io.ReadCloser, error) {
	stream, err := f.conn.openRequest(request{Op: opOpen, Open: &l})
	if err != nil {
		return nil, err
	}
	stream.SetReadDeadline(time.Now().Add(ioTimeout))
	var m response
	if err := read(stream, &m, maxInitMessage); err != nil {
		stream.Close()
		return nil, f.conn.lostError(err)
	}
	if m.Failure != nil {
		stream.Close()
		return nil, m.Failure.err()
	}
	return &fileReader{stream, &chunkReader{from: stream}, f.conn}, nil
}

// fileReader is a file that is open.
type fileReader struct {
	stream *yamux.Stream
	from   *chunkReader
	conn   *Conn
}

func (c *fileReader) Read(b []byte) (int, error) {
	c.stream.SetReadDeadline(time.Now().Add(ioTimeout))
	n, err := c.from.Read(b)
	if err == nil || err == io.EOF || errors.As(err, new(*initError)) {
		return n, err
	}
	return n, c.conn.lostError(err)
}

func (c *fileReader) Close() error { return c.stream.Close() }
