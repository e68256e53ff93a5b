// Package inside has the effects in a session's sandbox other than code in its interpreters: files and directories
// (files, directory), ports (DialPort), and programs (process), which others can find while they run
// (process_running). The agent in the sandbox performs them; its answers are redacted. E2B's API and the HTTP API of
// sessions use them.
package inside

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// WriteFile writes a file of a session's sandbox, and creates its parent directories. Its answer is a [guest.Entry].
type WriteFile struct {
	Namespace, Session string
	guest.FileWrite              // Path is absolute, or relative to the home directory
	Content            io.Reader // not used after Do has returned
}

func (q WriteFile) Subject() pipeline.Subject { return pipeline.About("file", q.Namespace, q.Session) }

func (q WriteFile) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[guest.Entry], error) {
	return planFileOf(r, q.Session, pipeline.Facts{"op": "write"}, func(ctx context.Context, s *session.Session, c *guest.Client) (guest.Entry,
		error) {
		e, err := c.Write(ctx, q.FileWrite, q.Content)
		return session.CleanEntry(s, e), err
	}, &q.Path)
}

// ChangeFile creates a directory, or moves or removes files in a session's sandbox. Its answer is the resulting
// [guest.Entry], except for "remove".
type ChangeFile struct {
	Namespace, Session string
	Op                 string // "mkdir", "move" or "remove"
	Path               string // target; absolute, or relative to the home directory
	To                 string // new path for "move"
}

func (q ChangeFile) Subject() pipeline.Subject { return pipeline.About("file", q.Namespace, q.Session) }

func (q ChangeFile) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[guest.Entry], error) {
	return planFileOf(r, q.Session, pipeline.Facts{"op": q.Op}, func(ctx context.Context, s *session.Session, c *guest.Client) (e guest.Entry,
		err error) {
		switch q.Op {
		case "mkdir":
			e, err = c.Mkdir(ctx, q.Path)
		case "move":
			e, err = c.Move(ctx, q.Path, q.To)
		case "remove":
			err = c.Remove(ctx, q.Path)
		default:
			err = fmt.Errorf("unknown change %q of files: this is a bug", q.Op)
		}
		return session.CleanEntry(s, e), err
	}, &q.Path, &q.To)
}

// planFileOf plans a change of a session's files with the facts of its row. It resolves the paths first.
func planFileOf[T any](r *pipeline.Run, id string, row pipeline.Facts, do func(context.Context, *session.Session, *guest.Client) (T, error),
	paths ...*string) (pipeline.Action[T], error) {
	s, err := session.FindSession(r.Pipeline, r.Outcome.Namespace, id)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		if *p == "" {
			continue
		}
		if *p, err = session.ResolvePath(s.Info(), *p); err != nil {
			return nil, err
		}
		row[[]string{"path", "to"}[i]] = *p
	}
	return session.PlanInside(r, id, "session.file", row, func(ctx context.Context, s *session.Session) (answer T, err error) {
		c, err := s.Guest(ctx)
		if err != nil {
			return answer, err
		}
		if answer, err = do(ctx, s, c); err != nil {
			return answer, session.CleanFileError(s, err)
		}
		return answer, nil
	})
}

// StatFile describes a file of a session's sandbox. An error of the sandbox has a reason: see [guest.ReasonOf].
func StatFile(ctx context.Context, p *pipeline.Pipeline, namespace, id, name string) (e guest.Entry, err error) {
	err = session.WithAgent(ctx, p, namespace, id, name, func(s *session.Session, c *guest.Client, file string) (err error) {
		e, err = c.Stat(ctx, file)
		e = session.CleanEntry(s, e)
		return err
	})
	return e, err
}

// ListFiles lists a directory of a session's sandbox, depth levels deep, in lexical order. The server holds only a
// few such lists at a time; each counts until release.
func ListFiles(ctx context.Context, p *pipeline.Pipeline, namespace, id, name string, depth int) (list []guest.Entry, release func(),
	err error) {
	err = session.WithAgent(ctx, p, namespace, id, name, func(s *session.Session, c *guest.Client, file string) error {
		leave, err := s.AcquireListSlot(ctx)
		if err != nil {
			return session.ErrorOf(pipeline.StageBackend, err)
		}
		var large func()
		if list, large, err = c.List(ctx, file, depth); err != nil {
			leave()
			return err
		}
		for i := range list {
			list[i] = session.CleanEntry(s, list[i])
		}
		release = func() { large(); leave() }
		return nil
	})
	return list, release, err
}

// ReadFile opens a file of a session's sandbox, which the caller closes. A file with a secret of the session is
// withheld: if the session has secrets, the whole file is read before its first byte is returned.
func ReadFile(ctx context.Context, p *pipeline.Pipeline, namespace, id, name string) (e guest.Entry, content io.ReadCloser, err error) {
	err = session.WithAgent(ctx, p, namespace, id, name, func(s *session.Session, c *guest.Client, file string) (err error) {
		if e, content, err = c.Read(ctx, file); err != nil {
			return err
		}
		e = session.CleanEntry(s, e)
		content, err = spoolContent(ctx, p, s, e.Path, content)
		return err
	})
	return e, content, err
}

// errLeased ends content that was opened while the session had no secrets.
var errLeased error = pipeline.PublicError("the session has leased secrets meanwhile")

// unleased is content that can be read as long as its session has leased no secrets: earlier content can't contain
// them.
type unleased struct {
	io.ReadCloser
	leased func() bool
}

// Read implements [io.Reader].
func (u unleased) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if u.leased() {
		clear(b[:n])
		return 0, errLeased
	}
	return n, err
}

// heldFile keeps its session in use until it is closed or the session ends, which does not wait for a stalled client.
type heldFile struct {
	io.ReadCloser
	over context.CancelFunc
	all  []func()
}

// newHeldFile returns content of a session. done, which may be called more than once, ends the session's use; more
// are called at Close.
func newHeldFile(s *session.Session, content io.ReadCloser, done func(), more ...func()) *heldFile {
	open, over := context.WithCancel(context.Background())
	go func() {
		select {
		case <-s.Dead():
			done()
		case <-open.Done():
		}
	}()
	return &heldFile{content, over, append(more, done)}
}

// Close implements [io.Closer].
func (f *heldFile) Close() error {
	f.over()
	err := f.ReadCloser.Close()
	for _, done := range f.all {
		done()
	}
	return err
}

// WatchFiles is [guest.Client.Watch] of a directory of a session's sandbox.
func WatchFiles(ctx context.Context, p *pipeline.Pipeline, namespace, id string, w guest.Watch,
	begun func(caughtUp func(context.Context) error) error,
	event func(guest.Event) error) error {
	return session.WithAgent(ctx, p, namespace, id, w.Path, func(s *session.Session, c *guest.Client, file string) error {
		w.Path = file
		return c.Watch(ctx, w, begun, func(e guest.Event) error {
			e.Name = s.Redact(e.Name)
			if e.Entry != nil {
				clean := session.CleanEntry(s, *e.Entry)
				e.Entry = &clean
			}
			return event(e)
		})
	})
}

// DialPort connects to a port of a session's loopback. Its answer is a [net.Conn], which the caller closes. A session
// that has leased secrets exposes no ports, because its traffic can't be redacted.
type DialPort struct {
	Namespace, Session string
	Port               int
}

func (q DialPort) Subject() pipeline.Subject { return pipeline.About("port", q.Namespace, q.Session) }

func (q DialPort) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[net.Conn], error) {
	return session.PlanInside(r, q.Session, "session.port", pipeline.Facts{"port": q.Port},
		func(ctx context.Context, s *session.Session) (net.Conn, error) {
			if len(s.Leases()) > 0 {
				return nil, pipeline.Refuse(pipeline.StageVault, "the session has leased secrets, so its ports can't be reached from outside",
					remedy.NoSession)
			}
			c, err := s.Guest(ctx)
			if err != nil {
				return nil, err
			}
			done, err := s.Use()
			if err != nil {
				return nil, err
			}
			conn, err := c.Dial(ctx, q.Port)
			if err != nil {
				done()
				return nil, session.CleanFileError(s, err)
			}
			leased := func() bool { return len(s.Leases()) > 0 }
			return heldConn{conn, newHeldFile(s, unleased{conn, leased}, done)}, nil // the only row is written already, so nothing can fail later
		})
}

// heldConn is a connection with held content.
type heldConn struct {
	net.Conn
	content *heldFile
}

// Read implements [net.Conn].
func (c heldConn) Read(b []byte) (int, error) { return c.content.Read(b) }

// Close implements [net.Conn].
func (c heldConn) Close() error { return c.content.Close() }
