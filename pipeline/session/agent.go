package session

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// ResolvePath returns the absolute path for a name in a session: relative names and ~ refer to its home directory.
func ResolvePath(i Info, name string) (string, error) {
	home := cmp.Or(i.Home, backends.Workspace)
	switch {
	case strings.ContainsRune(name, 0):
		return "", pipeline.Refuse(pipeline.StageValidate, "the path contains a NUL byte", "")
	case name == "~" || strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case strings.HasPrefix(name, "~"):
		return "", pipeline.Refuse(pipeline.StageValidate, "cannot expand user-specific home dir", "use an absolute path")
	case !path.IsAbs(name):
		name = home + "/" + name
	}
	return path.Clean(name), nil
}

// CleanFileError removes the session's secrets from an error of the agent, and returns any other error unchanged.
func CleanFileError(s *Session, err error) error {
	own, is := errors.AsType[*guest.Error](err)
	if !is {
		return err
	}
	e := pipeline.Refuse(pipeline.StageBackend, s.Redact(own.Message), "list the directory to see what there is")
	e.Denied = false
	return e.WithCause(&guest.Error{Reason: own.Reason, Message: s.Redact(own.Message)})
}

// CleanEntry removes the session's secrets from an entry.
func CleanEntry(s *Session, e guest.Entry) guest.Entry {
	for _, t := range []*string{&e.Name, &e.Path, &e.Owner, &e.Group, &e.Target} {
		*t = s.Redact(*t)
	}
	for k, v := range e.Metadata {
		delete(e.Metadata, k)
		e.Metadata[s.Redact(k)] = s.Redact(v)
	}
	return e
}

// WithAgent calls do with the agent of a session, and the path for a name there.
func WithAgent(ctx context.Context, p *pipeline.Pipeline, namespace, id, name string,
	do func(s *Session, c *guest.Client, file string) error) error {
	s, err := FindSession(p, namespace, id)
	if err != nil {
		return err
	}
	file, err := ResolvePath(s.Info(), name)
	if err != nil {
		return err
	}
	done, err := s.Use()
	if err != nil {
		return ErrorOf(pipeline.StageBackend, err)
	}
	defer done()
	c, err := s.Guest(ctx)
	if err != nil {
		return ErrorOf(pipeline.StageBackend, err)
	}
	return CleanFileError(s, do(s, c, file))
}

// VerifyHash returns a reader of content that checks its SHA-256, in hex; a nil hash, or "", accepts any. On a
// mismatch the last read fails with an error, which is also stored in wrong.
func VerifyHash(content io.Reader, hash func() string, wrong *error) io.Reader {
	if hash == nil {
		return content
	}
	return &operation.Hashed{Reader: content, End: func(sum []byte) error {
		if got, want := hex.EncodeToString(sum), hash(); want != "" && got != strings.ToLower(want) {
			*wrong = fmt.Errorf("the content has the SHA-256 %s, want %.64s", got, want)
		}
		return *wrong
	}}
}
