package sessions

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// tarType is the type of a tar.
const tarType = "application/x-tar"

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
	sum := sha256.New()
	w.Header().Set("Content-Type", tarType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Trailer", "Content-Digest")
	if _, err := io.Copy(io.MultiWriter(w, sum), content); err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	w.Header().Set("Content-Digest", digestOf(sum.Sum(nil)))
}

// unpacked writes a tar into a directory of the workspace: all of it, or where it is not whole or not what its Content-Digest says, nothing.
func (s *Server) unpacked(w http.ResponseWriter, r *http.Request, st *state) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != tarType {
		refuse(w, http.StatusUnsupportedMediaType, "Content-Type must be "+tarType)
		return
	}
	if r.ContentLength > MaxUpload {
		refuse(w, http.StatusRequestEntityTooLarge, "100 MB are the most of one request")
		return
	}
	dir, err := directoryOf(r)
	want, known := sumOf(r.Header.Get("Content-Digest"))
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

func digestOf(sum []byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}

// sumOf returns the SHA-256 in hex that a Content-Digest has, "" of an empty one. It is false if it has none that can be read.
func sumOf(digest string) (sum string, ok bool) {
	if digest == "" {
		return "", true
	}
	for part := range strings.SplitSeq(digest, ",") {
		text, is := strings.CutPrefix(strings.TrimSpace(part), "sha-256=:")
		if b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(text, ":")); is && err == nil && len(b) == sha256.Size {
			return hex.EncodeToString(b), true
		}
	}
	return "", false
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
