package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// HostCopy copies a file between the host and a sandbox. A path on the host is absolute. Any other is below the
// working directory of the session, or, as a source, one of the artifacts of Run; as a destination without a session,
// it is the name under which the file is kept like an artifact of a run, to be an input of later ones. A file in which a secret of the
// namespace is found, or of the session, is not copied. It comes to a [HostWritten].
type HostCopy struct {
	HostCaller         // whose session it is
	Run         string // whose artifact is copied
	Source      string
	Destination string
	Overwrite   bool
}

func (q HostCopy) subject() subject { return about("host_file_copy", q.Namespace, q.Session) }

func (q HostCopy) plan(ctx context.Context, r *run) (action[HostWritten], error) {
	var from, to files.Access
	return planFiles(ctx, r, q.HostCaller, q.Source+" to "+q.Destination, facts{"source": long(q.Source), "destination": long(q.Destination)},
		func(ctx context.Context, who HostCaller) error {
			err := r.checkCopy(q)
			if err == nil && path.IsAbs(q.Source) {
				from, err = r.mayReach(ctx, who, q.Source, false)
			}
			if err == nil && path.IsAbs(q.Destination) {
				to, err = r.mayReach(ctx, who, q.Destination, true)
			}
			return err
		}, func(ctx context.Context) (w HostWritten, err error) {
			content, err := r.copySource(ctx, q, from)
			if err == nil {
				err = r.holdsNoSecret(q.Source, content)
			}
			if err != nil {
				return w, r.fileError(err, from, false)
			}
			w, err = r.copyTo(ctx, q, to, content)
			return w, r.fileError(err, to, true)
		})
}

// checkCopy refuses paths of which it is not clear what they are in.
func (r *run) checkCopy(q HostCopy) error {
	if !r.p.cfg.Host.Enabled {
		return errHostOff()
	}
	from, to := path.IsAbs(q.Source), path.IsAbs(q.Destination)
	certain := from == (q.Run == "") && (from || to)
	if q.Session != "" {
		certain = q.Run == "" && from != to
	}
	if !certain {
		return refuse(StageValidate, fmt.Sprintf("it is not clear where %.80q and %.80q are", q.Source, q.Destination),
			"a path with a / in front is on the host; of the two, one is relative with a session, the source with a run, and else at most the destination")
	}
	for _, name := range []string{q.Source, q.Destination} {
		if !path.IsAbs(name) && (!filepath.IsLocal(name) || path.Clean(name) == "." || strings.HasPrefix(path.Clean(name), ".bridge")) {
			return refuse(StageValidate, fmt.Sprintf("%.80q is no name for a file in a working directory", name), "")
		}
	}
	if q.Session == "" {
		return nil
	}
	s, err := r.p.own(r.res.Namespace, q.Session)
	if err == nil {
		r.leases = slices.Concat(r.leases[:1], s.Leases()) // behind that of the namespace
	}
	return err
}

func (r *run) copySource(ctx context.Context, q HostCopy, a files.Access) ([]byte, error) {
	switch {
	case path.IsAbs(q.Source):
		return a.Read(ctx, q.Source)
	case q.Run != "":
		return r.artifact(q.Run, path.Clean(q.Source), r.p.cfg.Host.maxFile())
	}
	s, err := r.p.own(r.res.Namespace, q.Session)
	if err != nil {
		return nil, err
	}
	var content []byte
	found, err := inSession(ctx, s, q.Source, func(f backends.File) error {
		in, err := f.Open()
		if err != nil {
			return err
		}
		defer in.Close()
		most := r.p.cfg.Host.maxFile()
		if content, err = io.ReadAll(io.LimitReader(in, most+1)); err == nil && int64(len(content)) > most {
			err = tooLarge(f.Name, most)
		}
		return err
	})
	if err == nil && !found {
		err = refuse(StageValidate, fmt.Sprintf("the session has no file %q", q.Source), remedy.Inspect, " lists its files")
	}
	return content, err
}

var errFound = errors.New("it was found")

// inSession calls f for the file of a session's workspace that has a name.
func inSession(ctx context.Context, s *session.Session, name string, f func(backends.File) error) (found bool, err error) {
	_, err = s.Sandbox().Files().Each(ctx, func(file backends.File) error {
		if file.Name != path.Clean(name) {
			return nil
		}
		found = true
		if err := f(file); err != nil {
			return err
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

func tooLarge(name string, limit int64) error {
	return refuse(StageValidate, fmt.Sprintf("%q has more than %d bytes, which is the most that can be copied here", name, limit), "copy less")
}

// artifact reads what a run of the namespace left.
func (r *run) artifact(run, name string, limit int64) ([]byte, error) {
	if r.p.cfg.Results == nil {
		return nil, refuse(StageValidate, "nothing is kept of runs here", "a server keeps it: sandboxmcp serve")
	}
	k, err := r.p.cfg.Results.Get(run)
	if err == nil && k.Namespace != r.res.Namespace {
		err = fmt.Errorf("run %.40q: %w", run, results.ErrUnknown)
	}
	var whole []byte
	for err == nil {
		part, failed := r.p.cfg.Results.Read(k.ID, "files/"+name, int64(len(whole)), 0)
		if failed == nil && part.Size > limit {
			failed = tooLarge(name, limit)
		}
		if whole, err = append(whole, part.Data...), failed; err == nil && (len(part.Data) == 0 || int64(len(whole)) >= part.Size) {
			return whole, nil
		}
	}
	return nil, err
}

func (r *run) copyTo(ctx context.Context, q HostCopy, a files.Access, content []byte) (HostWritten, error) {
	if path.IsAbs(q.Destination) {
		mode := files.Create
		if q.Overwrite {
			mode = files.Overwrite
		}
		return r.writeHost(ctx, a, HostWrite{Path: q.Destination, Content: content, Mode: mode})
	}
	name := path.Clean(q.Destination)
	w := HostWritten{Path: r.clean(name), Size: int64(len(content)), SHA256: hash(content), Stored: q.Session == ""}
	r.facts["size"], r.facts["sha256"] = w.Size, w.SHA256
	switch {
	case q.Session == "" && r.p.cfg.Results == nil:
		return w, refuse(StageValidate, "the destination is in no session", "write an absolute path, or one of a session; ", remedy.Input, " gives files to a run")
	case q.Session == "": // it is an artifact of this action
		return w, r.store(ctx, name, r.p.cfg.Host.maxFile(), io.NopCloser(bytes.NewReader(content)))
	}
	s, err := r.p.own(r.res.Namespace, q.Session)
	if err != nil {
		return w, err
	}
	there, err := inSession(ctx, s, name, func(backends.File) error { return nil })
	if err == nil && there && !q.Overwrite {
		err = refuse(StageValidate, fmt.Sprintf("the session has a file %q already", name), "set overwrite to replace it, or choose another name")
	}
	if err != nil {
		return w, err
	}
	return w, s.Sandbox().Files().Put(name, 0o644, bytes.NewReader(content))
}

// store puts content into the result store, of so many bytes at most, and closes it.
func (r *run) store(ctx context.Context, name string, most int64, content io.ReadCloser) error {
	var dir *os.Root
	defer func() {
		if dir != nil {
			dir.Close()
		}
	}()
	m, err := signer.Collect(ctx, func(_ context.Context, f func(signer.File) error) (int, error) {
		return 0, f(signer.File{Name: name, Mode: 0o644, Open: func() (io.ReadCloser, error) { return content, nil }})
	}, signer.Options{Dir: func() (_ *os.Root, err error) {
		dir, err = r.p.cfg.Results.OpenArtifacts(r.res.ID)
		return dir, err
	}, Fresh: true, MaxCount: 1, MaxBytes: most, Redact: r.clean})
	if err == nil && len(m.Artifacts) == 0 {
		err = refuse(StageBackend, fmt.Sprintf("%.80q can't be kept: %s", r.clean(name), m.Why), "take less at once")
	}
	if err != nil {
		return err
	}
	r.res.Manifest = m
	return r.p.cfg.Results.Put(ctx, results.Record{ID: r.res.ID, Namespace: r.res.Namespace, Session: r.res.Session, Name: r.res.Name, End: backends.End{Ended: backends.EndedOK}, Time: time.Now().UTC(), Result: []byte("{}"), Artifacts: r.res.Artifacts})
}
