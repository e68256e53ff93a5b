package inside

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// WriteDirectory unpacks a tar into a directory of a session's sandbox, which is created if missing: all of it or, if
// the tar is truncated or does not have the hash SHA256, nothing. Its answer is a [guest.Unpacked].
type WriteDirectory struct {
	Namespace, Session string
	Path               string        // absolute, or relative to the home directory
	Content            io.Reader     // not used after Do has returned
	SHA256             func() string // hash of Content in hex, called after reading it; nil, or "", is not checked
}

func (q WriteDirectory) Subject() pipeline.Subject {
	return pipeline.About("file", q.Namespace, q.Session)
}

func (q WriteDirectory) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[guest.Unpacked], error) {
	return planFileOf(r, q.Session, pipeline.Facts{"op": "unpack"}, func(ctx context.Context, _ *session.Session,
		c *guest.Client) (guest.Unpacked, error) {
		var wrong error
		u, err := c.Unpack(ctx, q.Path, guest.OwnLinks, session.VerifyHash(q.Content, q.SHA256, &wrong))
		if wrong != nil {
			err = pipeline.Refuse(pipeline.StageValidate, wrong.Error(), "send it again")
		}
		return u, err
	}, &q.Path)
}

// OpenFiles is ReadFile, or ReadDirectory for a directory.
func OpenFiles(ctx context.Context, p *pipeline.Pipeline, namespace, id, name string) (e guest.Entry, content io.ReadCloser, err error) {
	e, err = StatFile(ctx, p, namespace, id, name)
	switch {
	case err != nil:
	case e.Kind == guest.Directory:
		content, err = ReadDirectory(ctx, p, namespace, id, name)
	default:
		e, content, err = ReadFile(ctx, p, namespace, id, name)
	}
	return e, content, err
}

// ReadDirectory opens a directory of a session's sandbox as a tar, which the caller closes. It omits links that lead
// out of the directory. A directory with a secret of the session is withheld, as in [ReadFile].
func ReadDirectory(ctx context.Context, p *pipeline.Pipeline, namespace, id, name string) (content io.ReadCloser, err error) {
	err = session.WithAgent(ctx, p, namespace, id, name, func(s *session.Session, c *guest.Client, dir string) (err error) {
		if content, err = c.Pack(ctx, dir, guest.OwnLinks); err == nil {
			content, err = spoolContent(ctx, p, s, dir, content)
		}
		return err
	})
	return content, err
}

// spoolContent copies content of a session within its bounds, and returns the copy. The session counts as used until
// that is closed.
func spoolContent(ctx context.Context, p *pipeline.Pipeline, s *session.Session, name string, content io.ReadCloser) (io.ReadCloser,
	error) {
	done, err := s.Use()
	if err != nil {
		content.Close()
		return nil, session.ErrorOf(pipeline.StageBackend, err)
	}
	leased := func() bool { return len(s.Leases()) > 0 && !p.Config.Artifacts.ShowSecrets }
	if !leased() {
		return newHeldFile(s, unleased{content, leased}, done), nil
	}
	defer content.Close()
	release, err := s.AcquireCopySlot(ctx)
	if err != nil {
		done()
		return nil, session.ErrorOf(pipeline.StageQueue, err)
	}
	copied, _, _, err := session.SpoolUnnamed(p, content, session.MaxTarSize(pipeline.BoundsOf(s.Info().Limits).Disk), s.Leases())
	if own, is := errors.AsType[*pipeline.Error](err); is && own.Stage == pipeline.StageVault {
		err = pipeline.Refuse(pipeline.StageVault, s.Redact(name)+" is withheld, because it contains a secret", "programs get secrets by name")
	}
	if err != nil {
		release()
		done()
		return nil, err
	}
	return newHeldFile(s, copied, done, release), nil
}

// Exports is the directory in a session's home from which other sessions of its namespace may copy: its programs
// export files by putting them there.
const Exports = "exports"

// CopyFiles copies an exported file or directory of a session into another session of the namespace. Its answer is a
// [guest.Unpacked].
type CopyFiles struct {
	Namespace string
	From      string // source session
	Path      string // below Exports of From
	Session   string // target session
	To        string // target directory; "" is the home directory
}

func (q CopyFiles) Subject() pipeline.Subject { return pipeline.About("file", q.Namespace, q.Session) }

func (q CopyFiles) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[guest.Unpacked], error) {
	if q.To = path.Clean(q.To); q.To == "." {
		q.To = "~"
	}
	source, err := session.FindSession(r.Pipeline, r.Outcome.Namespace, q.From)
	if err != nil {
		return nil, err
	}
	from := exportPath(q.Path)
	row := pipeline.Facts{"op": "copy", "from": q.From, "from_path": from}
	w, err := planFileOf(r, q.Session, row, func(ctx context.Context, _ *session.Session, c *guest.Client) (u guest.Unpacked, _ error) {
		e, content, err := OpenFiles(ctx, r.Pipeline, r.Outcome.Namespace, q.From, from)
		if err != nil {
			return u, err
		}
		defer content.Close()
		if e.Kind == guest.Directory {
			return c.Unpack(ctx, q.To, guest.OwnLinks, content)
		}
		e, err = c.Write(ctx, guest.FileWrite{Path: path.Join(q.To, path.Base(from)), Mode: e.Mode, Whole: true}, content)
		return guest.Unpacked{Files: 1, Bytes: e.Size}, err
	}, &q.To)
	if err != nil {
		return nil, err
	}
	r.Leases = slices.Concat(r.Leases, source.Leases())
	return w, nil
}

// KeepFiles stores an exported file or, as a tar, an exported directory of a session like an artifact of a run: the
// result's Artifacts lists it.
type KeepFiles struct {
	Namespace, Session string
	Path               string // below Exports
}

func (q KeepFiles) Subject() pipeline.Subject { return pipeline.About("file", q.Namespace, q.Session) }

func (q KeepFiles) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	if r.Pipeline.Config.Results == nil {
		return nil, pipeline.Refuse(pipeline.StageValidate, "this process does not store files of sessions", "use a server: sandboxmcp serve")
	}
	from := exportPath(q.Path)
	return planFileOf(r, q.Session, pipeline.Facts{"op": "keep"}, func(ctx context.Context, _ *session.Session,
		_ *guest.Client) (pipeline.NoAnswer, error) {
		e, content, err := OpenFiles(ctx, r.Pipeline, r.Outcome.Namespace, q.Session, from)
		if err != nil {
			return pipeline.NoAnswer{}, err
		}
		name := path.Base(from)
		if e.Kind == guest.Directory {
			name += ".tar"
		}
		return pipeline.NoAnswer{}, r.StoreFile(ctx, name, r.Pipeline.Config.Artifacts.MaxBytes, content)
	}, &from)
}

// exportPath returns the path in a session of a name below Exports.
func exportPath(name string) string { return "~/" + path.Join(Exports, path.Clean("/"+name)) }
