package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/snapshot"
)

// files is the workspace in the container. Its methods take no context: the connection ends if the init is silent
// for ioTimeout.
type files struct {
	conn     *Conn
	proposed bool
}

// Put implements [backends.Files].
func (f files) Put(name string, mode uint32, r io.Reader) error {
	from, to := io.Pipe() // only this goroutine reads r, since the library may read on briefly
	answered := make(chan error, 1)
	go func() {
		reply, err := f.conn.send(context.Background(), request{Op: opPut, Put: &put{[]byte(name), mode}}, unwanted{from}, ioTimeout)
		var m response
		if err == nil {
			m, err = reply.readNext()
			reply.Close()
		}
		unwanted{from}.Close()
		answered <- cmp.Or(err, m.Failure.decode())
	}()
	if err := copyAll(to, r); err != nil && !errors.Is(err, errUnwanted) {
		to.CloseWithError(err)
		<-answered
		return fmt.Errorf("write %s: %w", name, err)
	}
	to.Close()
	return <-answered
}

var errUnwanted = errors.New("the init stopped reading the file")

// unwanted is a pipe whose Close stops its writer with errUnwanted.
type unwanted struct{ *io.PipeReader }

// Close implements [io.Closer].
func (u unwanted) Close() error { return u.CloseWithError(errUnwanted) }

// Each implements [backends.Files].
func (f files) Each(ctx context.Context, do func(backends.File) error) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r, err := f.conn.send(ctx, request{Op: opEach}, nil, ioTimeout)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for {
		m, err := r.readNext()
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			return 0, err
		case m.Done:
			return max(m.Skipped, 0), m.Failure.decode()
		}
		file, err := f.checkEntry(m.File)
		if err != nil {
			return 0, err
		}
		if err := do(file); err != nil {
			return max(m.Skipped, 0), err
		}
	}
}

// Unpack fills the built sandbox's workspace from an archive of [snapshot.Source.Pack]. The error is
// [snapshot.ErrFull] if there is no room.
func (c *Conn) Unpack(ctx context.Context, archive io.ReadCloser) error {
	r, err := c.send(ctx, request{Op: opUnpack}, archive, ioTimeout)
	if err != nil {
		return err
	}
	defer r.Close()
	m, err := r.readNext()
	if m.Full && err == nil {
		err = snapshot.ErrFull
	}
	return cmp.Or(err, m.Failure.decode())
}

// Changes implements [backends.Files] for a workspace that Unpack has filled: it lists all paths.
func (f files) Changes(ctx context.Context, do func(backends.Change) error) error {
	if !f.proposed {
		return backends.ErrNotProposed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := f.conn.send(ctx, request{Op: opChanges}, nil, ioTimeout)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		m, err := r.readNext()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case m.Done:
			return m.Failure.decode()
		}
		file, err := f.checkEntry(m.File)
		if err != nil {
			return err
		}
		c := backends.Change{Name: file.Name, Mode: fs.FileMode(m.File.Mode), Size: file.Size, ModTime: file.Changed,
			Target: string(m.File.Target)}
		if m.File.Removed {
			c = backends.Change{Name: file.Name, Removed: true}
		} else if c.Mode.IsRegular() {
			c.ID, c.Open = m.File.ID, file.Open
		}
		if err := do(c); err != nil {
			return err
		}
	}
}

// checkEntry converts an entry into a file that can be opened. An invalid name is a protocol violation.
func (f files) checkEntry(l *fileEntry) (backends.File, error) {
	const longest = 64 << 10 // bytes; such a path can be made directory by directory
	if l == nil {
		return backends.File{}, f.conn.protocolError("a walk without files")
	}
	name := string(l.Name)
	if name == "" || len(name) > longest || path.Clean(name) != name || name[0] == '/' || name == "." || name == ".." ||
		strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) || l.Size < 0 || l.Nsec < 0 || l.Nsec > 1e9 {
		return backends.File{}, f.conn.protocolError("an impossible file name")
	}
	which := *l
	return backends.File{
		Name: name, Size: l.Size, Mode: l.Mode & 0o777, Changed: time.Unix(l.Sec, l.Nsec),
		Open: func() (io.ReadCloser, error) { return f.openEntry(which) },
	}, nil
}

// openEntry opens a listed file.
func (f files) openEntry(l fileEntry) (io.ReadCloser, error) {
	r, err := f.conn.send(context.Background(), request{Op: opOpen, Open: &l}, nil, ioTimeout)
	if err != nil {
		return nil, err
	}
	m, err := r.readNext()
	if err == nil {
		err = m.Failure.decode()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return fileReader{r}, nil
}

// fileReader is an open file.
type fileReader struct{ *reply }

// Read implements [io.Reader]. Only the trailer confirms that the content is complete.
func (r fileReader) Read(b []byte) (int, error) {
	n, err := r.reply.Read(b)
	if err != io.EOF {
		return n, err
	}
	m, err := r.readLast()
	return n, cmp.Or(err, m.Failure.decode(), io.EOF)
}
