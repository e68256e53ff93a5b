package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// CopyFile copies a file between the host and a sandbox. Absolute paths are on the host. Other paths are below the
// working directory of the session, or name an artifact of Run as the source; as a destination without a session,
// they name a stored file, which can be an input of later runs. A file with a secret of the namespace or the session
// is not copied. Its answer is a [Written].
type CopyFile struct {
	Caller             // its session
	Run         string // run whose artifact is copied
	Source      string
	Destination string
	Overwrite   bool
}

func (q CopyFile) Subject() pipeline.Subject {
	return pipeline.About("host_file_copy", q.Namespace, q.Session)
}

func (q CopyFile) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[Written], error) {
	var from, to files.Access
	return planFiles(ctx, r, q.Caller, q.Source+" to "+q.Destination, pipeline.Facts{"source": pipeline.LongText(q.Source),
		"destination": pipeline.LongText(q.Destination)},
		func(ctx context.Context, who Caller) error {
			err := checkCopy(r, q)
			if err == nil && path.IsAbs(q.Source) {
				from, err = mayReach(ctx, r, who, q.Source, false)
			}
			if err == nil && path.IsAbs(q.Destination) {
				to, err = mayReach(ctx, r, who, q.Destination, true)
			}
			return err
		}, func(ctx context.Context) (w Written, err error) {
			content, err := copySource(ctx, r, q, from)
			if err == nil {
				err = holdsNoSecret(r, q.Source, content)
			}
			if err != nil {
				return w, fileError(r, err, from, false)
			}
			w, err = copyTo(ctx, r, q, to, content)
			return w, fileError(r, err, to, true)
		})
}

// checkCopy refuses ambiguous paths.
func checkCopy(r *pipeline.Run, q CopyFile) error {
	if !pipeline.PackageSettings[Config](r.Pipeline).Enabled {
		return errHostOff()
	}
	from, to := path.IsAbs(q.Source), path.IsAbs(q.Destination)
	certain := from == (q.Run == "") && (from || to)
	if q.Session != "" {
		certain = q.Run == "" && from != to
	}
	if !certain {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the paths %.80q and %.80q are ambiguous", q.Source, q.Destination),
			"a path with a / in front is on the host; of the two, one is relative with a session, the source with a run, and else at most the destination")
	}
	for _, name := range []string{q.Source, q.Destination} {
		if !path.IsAbs(name) && (!filepath.IsLocal(name) || path.Clean(name) == "." || strings.HasPrefix(path.Clean(name), ".bridge")) {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%.80q is not a valid name for a file in a working directory", name), "")
		}
	}
	if q.Session == "" {
		return nil
	}
	s, err := session.FindSession(r.Pipeline, r.Outcome.Namespace, q.Session)
	if err == nil {
		r.Leases = slices.Concat(r.Leases[:1], s.Leases()) // after that of the namespace
	}
	return err
}

func copySource(ctx context.Context, r *pipeline.Run, q CopyFile, a files.Access) ([]byte, error) {
	switch {
	case path.IsAbs(q.Source):
		return a.Read(ctx, q.Source)
	case q.Run != "":
		return r.ReadArtifact(q.Run, path.Clean(q.Source), pipeline.PackageSettings[Config](r.Pipeline).maxFile())
	}
	s, err := session.FindSession(r.Pipeline, r.Outcome.Namespace, q.Session)
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
		most := pipeline.PackageSettings[Config](r.Pipeline).maxFile()
		if content, err = io.ReadAll(io.LimitReader(in, most+1)); err == nil && int64(len(content)) > most {
			err = pipeline.TooLargeError(f.Name, most)
		}
		return err
	})
	if err == nil && !found {
		err = pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the session has no file %q", q.Source), remedy.Inspect, " lists its files")
	}
	return content, err
}

var errFound = errors.New("it was found")

// inSession calls f for the file with a name in a session's workspace.
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

func copyTo(ctx context.Context, r *pipeline.Run, q CopyFile, a files.Access, content []byte) (Written, error) {
	if path.IsAbs(q.Destination) {
		mode := files.Create
		if q.Overwrite {
			mode = files.Overwrite
		}
		return writeHost(ctx, r, a, WriteFile{Path: q.Destination, Content: content, Mode: mode})
	}
	name := path.Clean(q.Destination)
	w := Written{Path: r.Clean(name), Size: int64(len(content)), SHA256: pipeline.Hash(content), Stored: q.Session == ""}
	r.Facts["size"], r.Facts["sha256"] = w.Size, w.SHA256
	switch {
	case q.Session == "" && r.Pipeline.Config.Results == nil:
		return w, pipeline.Refuse(pipeline.StageValidate, "the destination is not in a session", "use an absolute path, or name a session; ",
			remedy.Input, " passes files to a run")
	case q.Session == "": // store it as an artifact of this action
		return w, r.StoreFile(ctx, name, pipeline.PackageSettings[Config](r.Pipeline).maxFile(), io.NopCloser(bytes.NewReader(content)))
	}
	s, err := session.FindSession(r.Pipeline, r.Outcome.Namespace, q.Session)
	if err != nil {
		return w, err
	}
	there, err := inSession(ctx, s, name, func(backends.File) error { return nil })
	if err == nil && there && !q.Overwrite {
		err = pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the file %q already exists in the session", name),
			"set overwrite to replace it, or choose another name")
	}
	if err != nil {
		return w, err
	}
	return w, s.Sandbox().Files().Put(name, 0o644, bytes.NewReader(content))
}
