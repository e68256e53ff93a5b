package envd

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// uploaded describes a written file to the client.
type uploaded struct {
	Path     string            `json:"path"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// authorize refuses a request for /files without a valid token or signature.
func (t Target) authorize(r *http.Request, operation string) error {
	if why := t.checkSignature(r, operation); why != "" {
		return door.Refuse(http.StatusUnauthorized, why)
	}
	if name := r.URL.Query().Get("username"); !users[name] {
		return door.Refuse(http.StatusUnauthorized, fmt.Sprintf("error looking up user '%.64s': user: unknown user %[1]s", name))
	}
	return nil
}

// download sends a file.
func (s *Server) download(w http.ResponseWriter, r *http.Request, t Target) error {
	if err := t.authorize(r, "read"); err != nil {
		return err
	}
	encoding, ok := acceptable(r.Header.Get("Accept-Encoding"))
	if !ok {
		return door.Refuse(http.StatusNotAcceptable, "no acceptable encoding found, supported: [identity, gzip]")
	}
	name := r.URL.Query().Get("path")
	e, content, err := inside.ReadFile(r.Context(), s.pipeline, t.Namespace, t.Session, name)
	if guest.ReasonOf(err) == guest.NotFound {
		err = door.Refuse(http.StatusNotFound, fmt.Sprintf("path '%s' does not exist", name))
	}
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff") // a signed URL is on the origin of the server's page, which runs scripts
	h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": e.Name}))
	h.Set("Vary", "Accept-Encoding")
	var to io.Writer = w
	if encoding == "gzip" {
		h.Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		to = z
	} else {
		h.Set("Content-Length", strconv.FormatInt(e.Size, 10))
	}
	if _, err := io.Copy(to, content); err != nil {
		panic(http.ErrAbortHandler) // the client must not mistake a part for the whole
	}
	return nil
}

// acceptable returns the encoding of an answer for an Accept-Encoding header: "gzip" if the client prefers it to
// none; false if it accepts neither.
func acceptable(header string) (encoding string, ok bool) {
	likes := map[string]float64{}
	for part := range strings.SplitSeq(strings.ToLower(header), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";q=")
		q, err := strconv.ParseFloat(weight, 64)
		if err != nil {
			q = 1
		}
		likes[name] = q
	}
	compressed, named := likes["gzip"]
	identity, plain := likes["identity"]
	rest, any := likes["*"]
	switch {
	case compressed > 0 && compressed >= identity:
		return "gzip", true
	case identity > 0, !plain && (!any || rest > 0):
		return "", true
	}
	return "gzip", rest > 0 && !named
}

// upload writes the files in a request.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, t Target) error {
	if err := t.authorize(r, "write"); err != nil {
		return err
	}
	body, err := plainBody(r)
	if err != nil {
		return unreadBody(err, "error decompressing request body: "+err.Error())
	}
	metadata := metadataOf(r.Header)
	if err := guest.CheckMetadata(metadata); err != nil {
		return door.Refuse(http.StatusBadRequest, "invalid metadata: "+err.Error())
	}
	u := &upload{Server: s, Target: t, r: r, metadata: metadata, name: r.URL.Query().Get("path"), done: []uploaded{}}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case kind == "application/octet-stream" && !r.URL.Query().Has("path"):
		err = door.Refuse(http.StatusBadRequest, "path query parameter is required for raw body upload")
	case kind == "application/octet-stream":
		err = u.write(u.name, body)
	case strings.HasPrefix(kind, "multipart/"):
		err = u.writeParts(body, params["boundary"])
	default:
		err = door.Refuse(http.StatusBadRequest, fmt.Sprintf("unsupported content type: %.100s, expected multipart/form-data or "+
			"application/octet-stream", r.Header.Get("Content-Type")))
	}
	if err != nil {
		return err
	}
	return door.Reply(w, http.StatusOK, u.done)
}

// unreadBody returns the error of an unreadable body: no memory at the moment, or else text.
func unreadBody(err error, text string) error {
	if errors.As(err, new(*door.Refused)) {
		return err
	}
	return door.Refuse(http.StatusBadRequest, text)
}

// plainBody returns the decompressed body of a request.
func plainBody(r *http.Request) (io.Reader, error) {
	name, _, _ := strings.Cut(r.Header.Get("Content-Encoding"), ";")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		return gzip.NewReader(r.Body)
	}
	return nil, fmt.Errorf("unsupported Content-Encoding: %.40s, supported: [gzip]", name)
}

// metadataOf returns the requested metadata of files.
func metadataOf(h http.Header) map[string]string {
	const prefix = "X-Metadata-"
	var m map[string]string
	for name, values := range h {
		key, is := strings.CutPrefix(name, prefix)
		if !is || key == "" || len(values) == 0 {
			continue
		}
		if m == nil {
			m = map[string]string{}
		}
		m[strings.ToLower(key)] = values[0]
	}
	return m
}

// upload is a request with files.
type upload struct {
	*Server
	Target
	r        *http.Request
	metadata map[string]string
	name     string // from the query; "" leaves it to the parts
	done     []uploaded
}

// write writes one file.
func (u *upload) write(name string, content io.Reader) error {
	info, err := session.InfoOf(u.pipeline, u.Namespace, u.Session)
	if err == nil {
		name, err = session.ResolvePath(info, name)
	}
	if err != nil {
		return err
	}
	for _, d := range u.done {
		if d.Path == name {
			return door.Refuse(http.StatusBadRequest, fmt.Sprintf("you cannot upload multiple files to the same path '%s' in one upload request, "+
				"only the first specified file was uploaded", name))
		}
	}
	e, _, err := pipeline.Do(u.r.Context(), u.pipeline, inside.WriteFile{
		Namespace: u.Namespace, Session: u.Session, FileWrite: guest.FileWrite{Path: name, Metadata: u.metadata},
		Content: door.Passing(u.r, content),
	})
	if err != nil {
		return err
	}
	u.done = append(u.done, uploaded{e.Path, path.Base(e.Path), "file", e.Metadata})
	return nil
}

// writeParts writes the files in a form.
func (u *upload) writeParts(body io.Reader, boundary string) error {
	unread := func(err error) error { return unreadBody(err, "error reading form: "+err.Error()) }
	return door.EachPart(multipart.NewReader(body, boundary), unread, func(name string, part *multipart.Part) error {
		switch name = cmp.Or(u.name, name); {
		case part.FormName() != "file":
			return nil
		case name == "":
			return door.Refuse(http.StatusBadRequest, "a file's name is missing")
		}
		return u.write(name, part)
	})
}
