package sessions

import (
	"io"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// sendTar sends a directory of the workspace as a tar, followed by its SHA-256 (RFC 9530).
func (s *Server) sendTar(w http.ResponseWriter, r *http.Request, st *state) error {
	dir, err := directoryOf(r)
	var content io.ReadCloser
	if err == nil {
		content, err = inside.ReadDirectory(r.Context(), s.cfg.Pipeline, st.namespace, r.PathValue("id"), dir)
	}
	if err != nil {
		return err
	}
	defer content.Close()
	operation.SendContent(w, operation.Tar, content)
	return nil
}

// receiveTar writes a tar into a directory of the workspace. It writes nothing if the tar is truncated or does not
// match its Content-Digest.
func (s *Server) receiveTar(w http.ResponseWriter, r *http.Request, st *state) error {
	if !operation.IsTar(r.Header) {
		return door.Refuse(http.StatusUnsupportedMediaType, "Content-Type must be "+operation.Tar)
	}
	if err := door.BoundBody(w, r, MaxUpload, tooLarge); err != nil {
		return err
	}
	dir, err := directoryOf(r)
	want, known := operation.SentDigest(r)
	if err == nil && !known {
		err = &problem{codeInput, "Content-Digest must be sha-256=:BASE64:"}
	}
	if err != nil {
		return err
	}
	u, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, inside.WriteDirectory{Namespace: st.namespace, Session: r.PathValue("id"), Path: dir,
		Content: door.Passing(r, r.Body), SHA256: want})
	if err != nil {
		return err
	}
	return door.Reply(w, http.StatusOK, u)
}

// directoryOf returns the directory in a query.
func directoryOf(r *http.Request) (string, error) {
	if !r.URL.Query().Has("path") {
		return workspace, nil
	}
	return inWorkspace(r.URL.Query().Get("path"))
}

// copyExport copies a file or directory from the exports of another session of the caller.
func (s *Server) copyExport(w http.ResponseWriter, r *http.Request, st *state) error {
	var q struct {
		From string `json:"from_session"`
		Path string `json:"path"` // below exports
		To   string `json:"to"`   // a directory; "" is the workspace
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.From == "" || q.Path == "" {
		return door.Refuse(http.StatusBadRequest, "from_session and path are required: path is below "+workspace+"/"+inside.Exports+
			" of that session")
	}
	to := workspace
	var err error
	if q.To != "" {
		to, err = inWorkspace(q.To)
	}
	var u guest.Unpacked
	if err == nil {
		u, _, err = pipeline.Do(r.Context(), s.cfg.Pipeline, inside.CopyFiles{
			Namespace: st.namespace, From: q.From, Path: q.Path, Session: r.PathValue("id"), To: to,
		})
	}
	if err != nil {
		return err
	}
	return door.Reply(w, http.StatusOK, u)
}
