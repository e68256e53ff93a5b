package pipeline

import (
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

// WriteFile writes a file of a session's sandbox, and makes its parent directories. The result's Answer is its [guest.Entry].
type WriteFile struct {
	Namespace, Session string
	guest.Put                    // Path is absolute, or relative to the home directory
	Content            io.Reader // is not used after Do has returned
}

func (q WriteFile) describe() Request {
	return Request{Namespace: q.Namespace, Session: q.Session, Name: "file"}
}

func (q WriteFile) plan(_ context.Context, r *run) (work, error) {
	return r.planFileOf(q.Session, "write", &q.Path, nil, func(ctx context.Context, c *guest.Client) (err error) {
		r.res.Answer, err = c.Write(ctx, q.Put, q.Content)
		return err
	})
}

// ChangeFile changes files of a session's sandbox otherwise. The result's Answer is the [guest.Entry] that it leaves, but of "remove".
type ChangeFile struct {
	Namespace, Session string
	Op                 string // "mkdir", "move", "remove", or "compose", which joins files into one
	Path               string // what is made, moved or removed; absolute, or relative to the home directory
	To                 string // of "move" and "compose"
	From               []string
}

func (q ChangeFile) describe() Request {
	return Request{Namespace: q.Namespace, Session: q.Session, Name: "file"}
}

func (q ChangeFile) plan(_ context.Context, r *run) (work, error) {
	q.From = append([]string(nil), q.From...)
	return r.planFileOf(q.Session, q.Op, &q.Path, append([]*string{&q.To}, pointers(q.From)...), func(ctx context.Context, c *guest.Client) (err error) {
		switch q.Op {
		case "mkdir":
			r.res.Answer, err = c.Mkdir(ctx, q.Path)
		case "move":
			r.res.Answer, err = c.Move(ctx, q.Path, q.To)
		case "compose":
			r.res.Answer, err = c.Compose(ctx, q.From, q.To)
		case "remove":
			err = c.Remove(ctx, q.Path)
		default:
			err = fmt.Errorf("there is no change %q of files: this is a bug", q.Op)
		}
		return err
	})
}

func pointers(list []string) (to []*string) {
	for i := range list {
		to = append(to, &list[i])
	}
	return to
}

// planFileOf plans a change of a session's files. The paths are resolved before.
func (r *run) planFileOf(id, op string, name *string, more []*string, do func(context.Context, *guest.Client) error) (work, error) {
	s, err := r.p.own(r.res.Namespace, id)
	if err != nil {
		return nil, err
	}
	f := facts{"op": op}
	for i, p := range append([]*string{name}, more...) {
		if *p == "" {
			continue
		}
		if *p, err = ResolvePath(s.Info(), *p); err != nil {
			return nil, err
		}
		if key := "path"; i == 0 {
			f[key] = *p
		} else if i == 1 {
			f["to"] = *p
		}
	}
	return r.planInside(id, "session.file", f, func(ctx context.Context, s *session.Session) error {
		c, err := s.Guest(ctx)
		if err != nil {
			return err
		}
		if err := do(ctx, c); err != nil {
			return fileFault(s, err)
		}
		if e, is := r.res.Answer.(guest.Entry); is {
			r.res.Answer = cleanEntry(s, e)
		}
		return nil
	})
}

// ResolvePath returns the absolute path that a name means in a session: a relative one, and ~, is in its home directory.
func ResolvePath(i session.Info, name string) (string, error) {
	home := i.Home
	if home == "" {
		home = backends.Workspace
	}
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

// fileFault is an error of the agent, free of the session's secrets.
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

// agent returns the agent of a session, which is in use until done is called, and the path that a name means there.
func (p *Pipeline) agent(ctx context.Context, namespace, id, name string) (s *session.Session, c *guest.Client, file string, done func(), err error) {
	if s, err = p.own(namespace, id); err == nil {
		file, err = ResolvePath(s.Info(), name)
	}
	if err == nil {
		done, err = s.Use()
	}
	if err != nil {
		return nil, nil, "", nil, sessionErrorOnce(err)
	}
	if c, err = s.Guest(ctx); err != nil {
		done()
		return nil, nil, "", nil, sessionErrorOnce(err)
	}
	return s, c, file, done, nil
}

// StatFile describes a file of a session's sandbox. An error of the sandbox's has a reason: see [guest.ReasonOf].
func (p *Pipeline) StatFile(ctx context.Context, namespace, id, name string) (guest.Entry, error) {
	s, c, file, done, err := p.agent(ctx, namespace, id, name)
	if err != nil {
		return guest.Entry{}, err
	}
	defer done()
	e, err := c.Stat(ctx, file)
	if err != nil {
		return e, fileFault(s, err)
	}
	return cleanEntry(s, e), nil
}

// ListFiles describes what is in a directory of a session's sandbox, depth levels deep, in lexical order. The list is one of few that the server
// holds at the same time, until release.
func (p *Pipeline) ListFiles(ctx context.Context, namespace, id, name string, depth int) (list []guest.Entry, release func(), err error) {
	s, c, file, done, err := p.agent(ctx, namespace, id, name)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	leave, err := s.Listing(ctx)
	if err != nil {
		return nil, nil, sessionErrorOnce(err)
	}
	list, large, err := c.List(ctx, file, depth)
	if err != nil {
		leave()
		return nil, nil, fileFault(s, err)
	}
	for i := range list {
		list[i] = cleanEntry(s, list[i])
	}
	return list, func() { large(); leave() }, nil
}

// ReadFile opens a file of a session's sandbox, which the caller closes. One in which a secret of the session is found is withheld: where the session
// has any, the file is read as a whole before its first byte is handed out.
func (p *Pipeline) ReadFile(ctx context.Context, namespace, id, name string) (guest.Entry, io.ReadCloser, error) {
	s, c, file, done, err := p.agent(ctx, namespace, id, name)
	if err != nil {
		return guest.Entry{}, nil, err
	}
	e, content, err := c.Read(ctx, file)
	if err != nil {
		done()
		return e, nil, fileFault(s, err)
	}
	e = cleanEntry(s, e)
	held, err := p.hold(ctx, s, e, content, done)
	return e, held, err
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
	s, c, file, done, err := p.agent(ctx, namespace, id, w.Path)
	if err != nil {
		return err
	}
	defer done()
	w.Path = file
	err = c.Watch(ctx, w, begun, func(e guest.Event) error {
		e.Name = s.Redact(e.Name)
		if e.Entry != nil {
			clean := cleanEntry(s, *e.Entry)
			e.Entry = &clean
		}
		return event(e)
	})
	if err != nil {
		return fileFault(s, err)
	}
	return nil
}

// DialPort connects to a port of a session's loopback. The result's Answer is a net.Conn, which the caller closes. A session that was lent
// secrets has no ports for others: what comes from there can't be cleaned.
type DialPort struct {
	Namespace, Session string
	Port               int
}

func (q DialPort) describe() Request {
	return Request{Namespace: q.Namespace, Session: q.Session, Name: "port"}
}

func (q DialPort) plan(_ context.Context, r *run) (work, error) {
	return r.planInside(q.Session, "session.port", facts{"port": q.Port}, func(ctx context.Context, s *session.Session) error {
		if len(s.Leases()) > 0 {
			return refuse(StageVault, "the session was lent secrets, so its ports are not reached from outside", remedy.NoSession)
		}
		c, err := s.Guest(ctx)
		if err != nil {
			return err
		}
		done, err := s.Use()
		if err != nil {
			return err
		}
		conn, err := c.Dial(ctx, q.Port)
		if err != nil {
			done()
			return fileFault(s, err)
		}
		leased := func() bool { return len(s.Leases()) > 0 }
		r.res.Answer = net.Conn(&heldConn{conn, unleased{conn, leased}, done}) // the one row is written before, so nothing can fail any more
		return nil
	})
}

// heldConn keeps its session in use until it is closed.
type heldConn struct {
	net.Conn
	content io.Reader
	done    func()
}

// Read implements [net.Conn].
func (c *heldConn) Read(b []byte) (int, error) { return c.content.Read(b) }

// Close implements [net.Conn].
func (c *heldConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}
