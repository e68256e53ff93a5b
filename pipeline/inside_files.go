package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// WriteFile writes a file of a session's sandbox, and makes its parent directories. It comes to its [guest.Entry].
type WriteFile struct {
	Namespace, Session string
	guest.Put                    // Path is absolute, or relative to the home directory
	Content            io.Reader // is not used after Do has returned
}

func (q WriteFile) subject() subject { return about("file", q.Namespace, q.Session) }

func (q WriteFile) plan(_ context.Context, r *run) (action[guest.Entry], error) {
	return planFileOf(r, q.Session, facts{"op": "write"}, func(ctx context.Context, s *session.Session, c *guest.Client) (guest.Entry, error) {
		e, err := c.Write(ctx, q.Put, q.Content)
		return cleanEntry(s, e), err
	}, &q.Path)
}

// ChangeFile changes files of a session's sandbox otherwise. It comes to the [guest.Entry] that it leaves, but of "remove".
type ChangeFile struct {
	Namespace, Session string
	Op                 string // "mkdir", "move" or "remove"
	Path               string // what is made, moved or removed; absolute, or relative to the home directory
	To                 string // of "move"
}

func (q ChangeFile) subject() subject { return about("file", q.Namespace, q.Session) }

func (q ChangeFile) plan(_ context.Context, r *run) (action[guest.Entry], error) {
	return planFileOf(r, q.Session, facts{"op": q.Op}, func(ctx context.Context, s *session.Session, c *guest.Client) (e guest.Entry, err error) {
		switch q.Op {
		case "mkdir":
			e, err = c.Mkdir(ctx, q.Path)
		case "move":
			e, err = c.Move(ctx, q.Path, q.To)
		case "remove":
			err = c.Remove(ctx, q.Path)
		default:
			err = fmt.Errorf("there is no change %q of files: this is a bug", q.Op)
		}
		return cleanEntry(s, e), err
	}, &q.Path, &q.To)
}

// planFileOf plans a change of a session's files, whose row says row. The paths are resolved before.
func planFileOf[T any](r *run, id string, row facts, do func(context.Context, *session.Session, *guest.Client) (T, error), paths ...*string) (action[T], error) {
	s, err := r.p.own(r.res.Namespace, id)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		if *p == "" {
			continue
		}
		if *p, err = ResolvePath(s.Info(), *p); err != nil {
			return nil, err
		}
		row[[]string{"path", "to"}[i]] = *p
	}
	return planInside(r, id, "session.file", row, func(ctx context.Context, s *session.Session) (answer T, err error) {
		c, err := s.Guest(ctx)
		if err != nil {
			return answer, err
		}
		if answer, err = do(ctx, s, c); err != nil {
			return answer, fileFault(s, err)
		}
		return answer, nil
	})
}

// ResolvePath returns the absolute path that a name means in a session: a relative one, and ~, is in its home directory.
func ResolvePath(i session.Info, name string) (string, error) {
	home := cmp.Or(i.Home, backends.Workspace)
	switch {
	case strings.ContainsRune(name, 0):
		return "", refuse(StageValidate, "the path has a NUL byte in it", "")
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case strings.HasPrefix(name, "~"):
		return "", refuse(StageValidate, "cannot expand user-specific home dir", "write the whole path")
	case !path.IsAbs(name):
		name = home + "/" + name
	}
	return path.Clean(name), nil
}

// fileFault returns an error of the agent free of the session's secrets, and any other as it is.
func fileFault(s *session.Session, err error) error {
	own, is := errors.AsType[*guest.Error](err)
	if !is {
		return err
	}
	e := refuse(StageBackend, s.Redact(own.Message), "list the directory to see what there is")
	e.Denied = false
	e.err = &guest.Error{Reason: own.Reason, Message: s.Redact(own.Message)}
	return e
}

// cleanEntry is an entry free of the session's secrets.
func cleanEntry(s *session.Session, e guest.Entry) guest.Entry {
	for _, t := range []*string{&e.Name, &e.Path, &e.Owner, &e.Group, &e.Target} {
		*t = s.Redact(*t)
	}
	for k, v := range e.Metadata {
		delete(e.Metadata, k)
		e.Metadata[s.Redact(k)] = s.Redact(v)
	}
	return e
}

// inside has do use the agent of a session, and the path that a name means there.
func (p *Pipeline) inside(ctx context.Context, namespace, id, name string, do func(s *session.Session, c *guest.Client, file string) error) error {
	s, err := p.own(namespace, id)
	if err != nil {
		return err
	}
	file, err := ResolvePath(s.Info(), name)
	if err != nil {
		return err
	}
	done, err := s.Use()
	if err != nil {
		return sessionError(StageBackend, err)
	}
	defer done()
	c, err := s.Guest(ctx)
	if err != nil {
		return sessionError(StageBackend, err)
	}
	return fileFault(s, do(s, c, file))
}

// StatFile describes a file of a session's sandbox. An error of the sandbox's has a reason: see [guest.ReasonOf].
func (p *Pipeline) StatFile(ctx context.Context, namespace, id, name string) (e guest.Entry, err error) {
	err = p.inside(ctx, namespace, id, name, func(s *session.Session, c *guest.Client, file string) (err error) {
		e, err = c.Stat(ctx, file)
		e = cleanEntry(s, e)
		return err
	})
	return e, err
}

// ListFiles describes what is in a directory of a session's sandbox, depth levels deep, in lexical order. The list is one of few that the server
// holds at the same time, until release.
func (p *Pipeline) ListFiles(ctx context.Context, namespace, id, name string, depth int) (list []guest.Entry, release func(), err error) {
	err = p.inside(ctx, namespace, id, name, func(s *session.Session, c *guest.Client, file string) error {
		leave, err := s.Listing(ctx)
		if err != nil {
			return sessionError(StageBackend, err)
		}
		var large func()
		if list, large, err = c.List(ctx, file, depth); err != nil {
			leave()
			return err
		}
		for i := range list {
			list[i] = cleanEntry(s, list[i])
		}
		release = func() { large(); leave() }
		return nil
	})
	return list, release, err
}

// ReadFile opens a file of a session's sandbox, which the caller closes. One in which a secret of the session is found is withheld: where the session
// has any, the file is read as a whole before its first byte is handed out.
func (p *Pipeline) ReadFile(ctx context.Context, namespace, id, name string) (e guest.Entry, content io.ReadCloser, err error) {
	err = p.inside(ctx, namespace, id, name, func(s *session.Session, c *guest.Client, file string) (err error) {
		if e, content, err = c.Read(ctx, file); err != nil {
			return err
		}
		e = cleanEntry(s, e)
		content, err = p.hold(ctx, s, e.Path, content)
		return err
	})
	return e, content, err
}

// errLeased ends what was opened when the session had no secrets.
var errLeased = errors.New("the session was lent secrets meanwhile")

// unleased is content that is read only as long as its session was lent no secrets: they can't be in what was read before.
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

// heldFile keeps its session in use until it is closed, or the session ends: that does not wait for a client that reads nothing.
type heldFile struct {
	io.ReadCloser
	over context.CancelFunc
	all  []func()
}

// held returns content of a session. done, which may be called more than once, is the end of the session's use; more are called when it is closed.
func held(s *session.Session, content io.ReadCloser, done func(), more ...func()) *heldFile {
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
func (p *Pipeline) WatchFiles(ctx context.Context, namespace, id string, w guest.Watch, begun func(caughtUp func(context.Context) error) error,
	event func(guest.Event) error) error {
	return p.inside(ctx, namespace, id, w.Path, func(s *session.Session, c *guest.Client, file string) error {
		w.Path = file
		return c.Watch(ctx, w, begun, func(e guest.Event) error {
			e.Name = s.Redact(e.Name)
			if e.Entry != nil {
				clean := cleanEntry(s, *e.Entry)
				e.Entry = &clean
			}
			return event(e)
		})
	})
}

// DialPort connects to a port of a session's loopback. It comes to a [net.Conn], which the caller closes. A session that was lent
// secrets has no ports for others: what comes from there can't be cleaned.
type DialPort struct {
	Namespace, Session string
	Port               int
}

func (q DialPort) subject() subject { return about("port", q.Namespace, q.Session) }

func (q DialPort) plan(_ context.Context, r *run) (action[net.Conn], error) {
	return planInside(r, q.Session, "session.port", facts{"port": q.Port}, func(ctx context.Context, s *session.Session) (net.Conn, error) {
		if len(s.Leases()) > 0 {
			return nil, refuse(StageVault, "the session was lent secrets, so its ports are not reached from outside", remedy.NoSession)
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
			return nil, fileFault(s, err)
		}
		leased := func() bool { return len(s.Leases()) > 0 }
		return heldConn{conn, held(s, unleased{conn, leased}, done)}, nil // the one row is written before, so nothing can fail any more
	})
}

// heldConn is a connection whose content is held.
type heldConn struct {
	net.Conn
	content *heldFile
}

// Read implements [net.Conn].
func (c heldConn) Read(b []byte) (int, error) { return c.content.Read(b) }

// Close implements [net.Conn].
func (c heldConn) Close() error { return c.content.Close() }
