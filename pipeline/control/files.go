package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// MaxFiles bounds the files that one HTTP request writes into a session, in bytes. On the server's own socket only
// the session's disk bounds them.
const MaxFiles = 4 << 30

// BringsFiles reports whether the body of a request contains files.
func BringsFiles(r *http.Request) bool {
	return r.Method == http.MethodPut && path.Base(r.URL.Path) == "files" && path.Dir(path.Dir(r.URL.Path)) == "/v1/sessions"
}

// MovedFiles describes files that were written into a session.
type MovedFiles struct {
	Session string `json:"session"`
	Path    string `json:"path"` // target directory
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"` // of their content
}

type filesIn struct {
	OfSession
	Path string `json:"path,omitempty" about:"A path in the session, relative to its home directory, which is the default." range:"..4096"`
}

// Export names an export of another session in the same namespace.
type Export struct {
	OfSession
	From string `json:"from_session" about:"The id of the other session, or a unique prefix." required:"true" range:"..64"`
	Path string `json:"path" about:"A file or directory in its exports." required:"true" range:"1..4096"`
	To   string `json:"to,omitempty" about:"The target directory. Default: the home directory." range:"..4096"`
}

// putFiles writes the files of a tar into a session, all or none.
func (a *API) putFiles(w http.ResponseWriter, r *http.Request) {
	q, err := putFiles.Arguments(r)
	sum, readable := operation.SentDigest(r)
	switch {
	case err != nil:
	case !operation.IsTar(r.Header):
		err = failure(http.StatusUnsupportedMediaType, "Content-Type must be %s", operation.Tar)
	case !readable:
		err = failure(http.StatusBadRequest, "Content-Digest must be sha-256=:BASE64:")
	}
	var moved MovedFiles
	if err == nil {
		stop := func() {}
		moved, err = a.place(r.Context(), q.ID, q.Path, func(namespace, id, to string) pipeline.Effect[guest.Unpacked] {
			stop = door.BreakOff(w, r, session.EndedChan(a.c.Pipeline, namespace, id))
			return inside.WriteDirectory{Namespace: namespace, Session: id, Path: to, Content: door.Passing(r, r.Body), SHA256: sum}
		})
		stop()
	}
	if err != nil {
		deny(w, err)
		return
	}
	door.Reply(w, http.StatusOK, moved)
}

func (a *API) copyExport(ctx context.Context, q *Export) (MovedFiles, error) {
	from, err := a.findSession(ctx, q.From)
	if err != nil {
		return MovedFiles{}, err
	}
	return a.place(ctx, q.ID, q.To, func(namespace, id, to string) pipeline.Effect[guest.Unpacked] {
		return inside.CopyFiles{Namespace: namespace, From: from.ID, Path: q.Path, Session: id, To: to}
	})
}

// place performs an effect that writes files into a session.
func (a *API) place(ctx context.Context, id, to string, effect func(namespace, id, to string) pipeline.Effect[guest.Unpacked]) (MovedFiles,
	error) {
	info, err := a.findSession(ctx, id)
	if err == nil {
		to, err = session.ResolvePath(info, to)
	}
	if err != nil {
		return MovedFiles{}, err
	}
	u, _, err := pipeline.Do(ctx, a.c.Pipeline, effect(info.Namespace, info.ID, to))
	if i, known := session.InfoOf(a.c.Pipeline, info.Namespace, info.ID); err != nil && known == nil && i.State == "dead" {
		err = fmt.Errorf("%w: %s", session.ErrDead, session.Reason(i.Ended))
	}
	return MovedFiles{info.ID, to, u.Files, u.Bytes}, err
}

// getFiles answers with a file, or a directory as a tar.
func (a *API) getFiles(w http.ResponseWriter, r *http.Request) {
	kind, content, err := a.content(r)
	if err != nil {
		deny(w, err)
		return
	}
	defer content.Close()
	operation.SendContent(w, kind, content)
}

func (a *API) content(r *http.Request) (kind string, content io.ReadCloser, err error) {
	q, err := getFiles.Arguments(r)
	if err != nil {
		return "", nil, err
	}
	info, err := a.findSession(r.Context(), q.ID)
	if err != nil {
		return "", nil, err
	}
	e, content, err := inside.OpenFiles(r.Context(), a.c.Pipeline, info.Namespace, info.ID, q.Path)
	if e.Kind == guest.Directory {
		return operation.Tar, content, err
	}
	return operation.Binary, content, err
}

// PutFiles writes the files of a tar into a directory of a session: all or, with an error, none.
func (c *Client) PutFiles(ctx context.Context, id, dir string, tar io.Reader) (MovedFiles, error) {
	return putFiles.Send(ctx, c.endless(), filesIn{OfSession{id}, dir}, tar)
}

// GetFiles opens a file of a session, or a directory as a tar. The caller closes it. Reading truncated or modified
// content ends with an error.
func (c *Client) GetFiles(ctx context.Context, id, path string) (isTar bool, content io.ReadCloser, err error) {
	kind, content, err := getFiles.Receive(ctx, c.endless(), filesIn{OfSession{id}, path})
	return kind == operation.Tar, content, err
}
