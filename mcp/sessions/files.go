package sessions

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/inside"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// MaxUpload bounds the files of one request, in bytes.
const (
	MaxUpload = 100 << 20
	tooLarge  = "the request is too large: the maximum is 100 MB"
)

// file is a file in a session's workspace.
type file struct {
	ID       string    `json:"file_id"`
	Name     string    `json:"filename"`
	Path     string    `json:"path"`
	Size     int64     `json:"size_bytes"`
	Modified time.Time `json:"modified_at"`
}

func fileOf(e guest.Entry) file {
	return file{fileID(strings.TrimPrefix(e.Path, workspace+"/")), e.Name, e.Path, e.Size, e.Modified}
}

// upload writes the files of a multipart form into the workspace: each part with a file name, into the directory in
// the last field "path" before it.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, st *state) error {
	const form = 64 << 10 // the form's own bytes
	if err := door.BoundBody(w, r, MaxUpload+form, tooLarge); err != nil {
		return err
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return door.Refuse(http.StatusBadRequest, "send the files as multipart/form-data: "+err.Error())
	}
	dir, list, left := workspace, []file{}, int64(MaxUpload)
	err = door.EachPart(parts, unread, func(name string, p *multipart.Part) error {
		if name == "" {
			value, err := io.ReadAll(io.LimitReader(p, 4096))
			if err != nil {
				err = unread(err)
			} else if p.FormName() == "path" {
				dir, err = inWorkspace(string(value))
			}
			return err
		}
		if !path.IsAbs(name) {
			name = dir + "/" + name
		}
		name, err := inWorkspace(name)
		if err == nil && name == workspace {
			err = errOutside
		}
		if err != nil {
			return err
		}
		content := &bounded{Reader: door.Passing(r, p), left: &left}
		e, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, inside.WriteFile{
			Namespace: st.namespace, Session: r.PathValue("id"), FileWrite: guest.FileWrite{Path: name, Whole: true}, Content: content,
		})
		if content.err != nil {
			err = unread(content.err)
		}
		if err != nil {
			return err
		}
		list = append(list, fileOf(e))
		return nil
	})
	if err == nil && len(list) == 0 {
		err = door.Refuse(http.StatusBadRequest, "the form has no file: send a part with a file name")
	}
	if err != nil {
		return err
	}
	return door.Reply(w, http.StatusCreated, map[string]any{"files": list})
}

// bounded reads the files of a form up to a total size, and keeps the read error.
type bounded struct {
	io.Reader
	left *int64
	err  error
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		n, err = 0, &http.MaxBytesError{Limit: MaxUpload}
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// unread returns the error of an unreadable form: too large, or malformed.
func unread(err error) error {
	if errors.As(err, new(*http.MaxBytesError)) || errors.As(err, new(*door.Refused)) {
		return err
	}
	return &problem{codeInput, "can't read the form: " + err.Error()}
}

// download sends a file of the workspace, by its path or its id.
func (s *Server) download(w http.ResponseWriter, r *http.Request, st *state) error {
	name := r.URL.Query().Get("path")
	if id := r.URL.Query().Get("file_id"); id != "" {
		var ok bool
		if name, ok = nameOf(id); !ok {
			return door.Refuse(http.StatusNotFound, "file not found")
		}
	}
	name, err := inWorkspace(name)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	entry, err := inside.StatFile(r.Context(), s.cfg.Pipeline, st.namespace, id, name)
	if err == nil && entry.Kind == guest.Directory {
		return door.Refuse(http.StatusBadRequest, name+" is a directory: list it with files/list")
	}
	var f io.ReadCloser
	if err == nil {
		entry, f, err = inside.ReadFile(r.Context(), s.cfg.Pipeline, st.namespace, id, name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	if _, err := io.Copy(w, f); err != nil {
		panic(http.ErrAbortHandler) // the client must not mistake a part for the whole
	}
	return nil
}

// listFiles answers with the files of a directory in the workspace and of its subdirectories.
func (s *Server) listFiles(w http.ResponseWriter, r *http.Request, st *state) error {
	dir := r.URL.Query().Get("path")
	if dir == "" {
		dir = workspace
	}
	dir, err := inWorkspace(dir)
	if err != nil {
		return err
	}
	const depth = 32
	all, release, err := inside.ListFiles(r.Context(), s.cfg.Pipeline, st.namespace, r.PathValue("id"), dir, depth)
	if err != nil {
		return err
	}
	defer release()
	list := []file{}
	for _, e := range all {
		if e.Kind != guest.Directory {
			list = append(list, fileOf(e))
		}
	}
	return door.Reply(w, http.StatusOK, map[string]any{"files": list})
}
