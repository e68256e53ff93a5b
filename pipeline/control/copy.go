package control

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Copy asks for a copy between the host and a session: see pipeline.HostCopy.
type Copy struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Overwrite   bool   `json:"overwrite,omitempty"`
}

// Copied is what became of it.
type Copied struct {
	Run    string   `json:"run"`
	Path   string   `json:"path"`
	Size   int64    `json:"size_bytes"`
	SHA256 string   `json:"sha256,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

func (l *Listener) copy(w http.ResponseWriter, r *http.Request) {
	var q Copy
	if !read(w, r, maxBody, &q) {
		return
	}
	info, err := l.find(r.PathValue("id"))
	if err != nil {
		deny(w, err)
		return
	}
	done, err := l.c.Pipeline.CopyHostFile(r.Context(), pipeline.HostCopy{
		HostCaller: pipeline.HostCaller{Namespace: info.Namespace, Session: info.ID},
		Source:     q.Source, Destination: q.Destination, Overwrite: q.Overwrite,
	})
	answer(w, Copied{Run: done.ID, Path: done.Path, Size: done.Size, SHA256: done.SHA256, Notes: done.Notes}, err)
}

// Copy copies a file between the host and a session.
func (c *Client) Copy(ctx context.Context, id string, q Copy) (done Copied, err error) {
	err = c.endless().do(ctx, http.MethodPost, "/v1/sessions/"+url.PathEscape(id)+"/copy", q, &done)
	return done, err
}
