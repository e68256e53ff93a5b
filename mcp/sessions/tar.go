package sessions

import (
	"io"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// packed sends a directory of the workspace as a tar, with its SHA-256 behind it (RFC 9530).
func (s *Server) packed(w http.ResponseWriter, r *http.Request, st *state) {
	dir, err := directoryOf(r)
	var content io.ReadCloser
	if err == nil {
		content, err = s.cfg.Pipeline.ReadDirectory(r.Context(), st.namespace, r.PathValue("id"), dir)
	}
	if err != nil {
		s.refuseUpload(w, err)
		return
	}
	defer content.Close()
	operation.SendContent(w, operation.Tar, content)
}

// unpacked writes a tar into a directory of the workspace: all of it, or where it is not whole or not what its Content-Digest says, nothing.
func (s *Server) unpacked(w http.ResponseWriter, r *http.Request, st *state) {
	if !operation.IsTar(r.Header) {
		refuse(w, http.StatusUnsupportedMediaType, "Content-Type must be "+operation.Tar)
		return
	}
	if r.ContentLength > MaxUpload {
		refuse(w, http.StatusRequestEntityTooLarge, "100 MB are the most of one request")
		return
	}
	dir, err := directoryOf(r)
	want, known := operation.Sent(r)
	if err == nil && !known {
		err = &problem{codeInput, "Content-Digest must be sha-256=:BASE64:"}
	}
	if err != nil {
		s.refuseUpload(w, err)
		return
	}
	res, err := s.cfg.Pipeline.Do(r.Context(), pipeline.WriteDirectory{Namespace: st.namespace, Session: r.PathValue("id"), Path: dir,
		Content: http.MaxBytesReader(w, r.Body, MaxUpload), SHA256: want})
	if err != nil {
		s.refuseUpload(w, err)
		return
	}
	operation.Reply(w, http.StatusOK, res.Answer)
}

// directoryOf returns the directory that a query names.
func directoryOf(r *http.Request) (string, error) {
	if !r.URL.Query().Has("path") {
		return workspace, nil
	}
	return inWorkspace(r.URL.Query().Get("path"))
}

// copied copies a file or directory that another session of the caller's has put into its directory exports.
func (s *Server) copied(w http.ResponseWriter, r *http.Request, st *state) {
	var q struct {
		From string `json:"from_session"`
		Path string `json:"path"` // below exports
		To   string `json:"to"`   // a directory; "" is the workspace
	}
	if !decode(w, r, &q) {
		return
	}
	if q.From == "" || q.Path == "" {
		refuse(w, http.StatusBadRequest, "from_session and path are required: path is below "+workspace+"/"+pipeline.Exports+" of that session")
		return
	}
	to := workspace
	var err error
	if q.To != "" {
		to, err = inWorkspace(q.To)
	}
	var res pipeline.Result
	if err == nil {
		res, err = s.cfg.Pipeline.Do(r.Context(), pipeline.CopyFiles{Namespace: st.namespace, From: q.From, Path: q.Path, Session: r.PathValue("id"), To: to})
	}
	if err != nil {
		s.refuseUpload(w, err)
		return
	}
	operation.Reply(w, http.StatusOK, res.Answer.(guest.Unpacked))
}
