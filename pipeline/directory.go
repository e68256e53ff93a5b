package pipeline

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// WriteDirectory writes what a tar has into a directory of a session's sandbox, which is made if there is none: all of it, or where the tar is
// not whole or not what SHA256 says, nothing. It comes to its [guest.Unpacked].
type WriteDirectory struct {
	Namespace, Session string
	Path               string        // absolute, or relative to the home directory
	Content            io.Reader     // is not used after Do has returned
	SHA256             func() string // of Content in hex, once that was read; nil, or "", is not checked
}

func (q WriteDirectory) subject() subject { return about("file", q.Namespace, q.Session) }

func (q WriteDirectory) plan(_ context.Context, r *run) (action[guest.Unpacked], error) {
	return planFileOf(r, q.Session, facts{"op": "unpack"}, func(ctx context.Context, _ *session.Session, c *guest.Client) (guest.Unpacked, error) {
		var wrong error
		u, err := c.Unpack(ctx, q.Path, guest.OwnLinks, checked(q.Content, q.SHA256, &wrong))
		if wrong != nil {
			err = refuse(StageValidate, wrong.Error(), "send it again")
		}
		return u, err
	}, &q.Path)
}

// checked returns content that must have a hash, in hex; nil and "" are any. What has another ends with an error, which wrong gets, too.
func checked(content io.Reader, hash func() string, wrong *error) io.Reader {
	if hash == nil {
		return content
	}
	return &operation.Hashed{Reader: content, End: func(sum []byte) error {
		if got, want := hex.EncodeToString(sum), hash(); want != "" && got != strings.ToLower(want) {
			*wrong = fmt.Errorf("what came has the SHA-256 %s, and not %.64s", got, want)
		}
		return *wrong
	}}
}

// OpenFiles is ReadFile or, of a directory, ReadDirectory.
func (p *Pipeline) OpenFiles(ctx context.Context, namespace, id, name string) (e guest.Entry, content io.ReadCloser, err error) {
	e, err = p.StatFile(ctx, namespace, id, name)
	switch {
	case err != nil:
	case e.Kind == guest.Directory:
		content, err = p.ReadDirectory(ctx, namespace, id, name)
	default:
		e, content, err = p.ReadFile(ctx, namespace, id, name)
	}
	return e, content, err
}

// ReadDirectory opens what is in a directory of a session's sandbox as a tar, which the caller closes. Links that lead out of it are not in it. One in
// which a secret of the session is found is withheld, as [Pipeline.ReadFile] does.
func (p *Pipeline) ReadDirectory(ctx context.Context, namespace, id, name string) (content io.ReadCloser, err error) {
	err = p.inside(ctx, namespace, id, name, func(s *session.Session, c *guest.Client, dir string) (err error) {
		if content, err = c.Pack(ctx, dir, guest.OwnLinks); err == nil {
			content, err = p.hold(ctx, s, dir, content)
		}
		return err
	})
	return content, err
}

// hold returns content of a session, of this name, that is read only as far as it may be. The session is in use until that is closed.
func (p *Pipeline) hold(ctx context.Context, s *session.Session, name string, content io.ReadCloser) (io.ReadCloser, error) {
	done, err := s.Use()
	if err != nil {
		content.Close()
		return nil, sessionError(StageBackend, err)
	}
	leased := func() bool { return len(s.Leases()) > 0 && !p.cfg.Artifacts.ShowSecrets }
	if !leased() {
		return held(s, unleased{content, leased}, done), nil
	}
	defer content.Close()
	release, err := s.Copy(ctx)
	if err != nil {
		done()
		return nil, sessionError(StageQueue, err)
	}
	copied, _, _, err := p.nameless(content, archived(BoundsOf(s.Info().Limits).Disk), s.Leases())
	if own, is := errors.AsType[*Error](err); is && own.Stage == StageVault {
		err = refuse(StageVault, s.Redact(name)+" is withheld, because a secret is in it", "a program is lent secrets by their names")
	}
	if err != nil {
		release()
		done()
		return nil, err
	}
	return held(s, copied, done, release), nil
}

// Exports is the directory of a session's home from which other sessions of its namespace may copy: what its programs put there is exported.
const Exports = "exports"

// CopyFiles copies a file or a directory that a session has exported into another session of the namespace. It comes to its
// [guest.Unpacked].
type CopyFiles struct {
	Namespace string
	From      string // a session
	Path      string // below Exports of From
	Session   string // that gets it
	To        string // the directory that it is put in; "" is the home directory
}

func (q CopyFiles) subject() subject { return about("file", q.Namespace, q.Session) }

func (q CopyFiles) plan(_ context.Context, r *run) (action[guest.Unpacked], error) {
	if q.To = path.Clean(q.To); q.To == "." {
		q.To = "~"
	}
	source, err := r.p.own(r.res.Namespace, q.From)
	if err != nil {
		return nil, err
	}
	from := exported(q.Path)
	row := facts{"op": "copy", "from": q.From, "from_path": from}
	w, err := planFileOf(r, q.Session, row, func(ctx context.Context, _ *session.Session, c *guest.Client) (u guest.Unpacked, _ error) {
		e, content, err := r.p.OpenFiles(ctx, r.res.Namespace, q.From, from)
		if err != nil {
			return u, err
		}
		defer content.Close()
		if e.Kind == guest.Directory {
			return c.Unpack(ctx, q.To, guest.OwnLinks, content)
		}
		e, err = c.Write(ctx, guest.Put{Path: path.Join(q.To, path.Base(from)), Mode: e.Mode, Whole: true}, content)
		return guest.Unpacked{Files: 1, Bytes: e.Size}, err
	}, &q.To)
	if err != nil {
		return nil, err
	}
	r.leases = slices.Concat(r.leases, source.Leases())
	return w, nil
}

// KeepFiles keeps a file or, as a tar, a directory that a session has exported like what a run leaves: the result's Artifacts has it.
type KeepFiles struct {
	Namespace, Session string
	Path               string // below Exports
}

func (q KeepFiles) subject() subject { return about("file", q.Namespace, q.Session) }

func (q KeepFiles) plan(_ context.Context, r *run) (action[None], error) {
	if r.p.cfg.Results == nil {
		return nil, refuse(StageValidate, "nothing is kept of sessions here", "a server keeps it: sandboxmcp serve")
	}
	from := exported(q.Path)
	return planFileOf(r, q.Session, facts{"op": "keep"}, func(ctx context.Context, _ *session.Session, _ *guest.Client) (None, error) {
		e, content, err := r.p.OpenFiles(ctx, r.res.Namespace, q.Session, from)
		if err != nil {
			return None{}, err
		}
		name := path.Base(from)
		if e.Kind == guest.Directory {
			name += ".tar"
		}
		return None{}, r.store(ctx, name, r.p.cfg.Artifacts.MaxBytes, content)
	}, &from)
}

// exported returns the path, in a session, of a name below its Exports.
func exported(name string) string { return "~/" + path.Join(Exports, path.Clean("/"+name)) }
