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

// Copied describes the file that a Copy has written.
type Copied struct {
	Run    string   `json:"run"`
	Path   string   `json:"path"`
	Size   int64    `json:"size_bytes"`
	SHA256 string   `json:"sha256,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

func (l *Listener) copy(r *http.Request) (any, error) {
	var q Copy
	if err := read(r, maxBody, &q); err != nil {
		return nil, err
	}
	info, err := l.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	res, err := l.c.Pipeline.Do(r.Context(), pipeline.HostCopy{
		HostCaller: pipeline.HostCaller{Namespace: info.Namespace, Session: info.ID},
		Source:     q.Source, Destination: q.Destination, Overwrite: q.Overwrite,
	})
	done, _ := res.Answer.(pipeline.HostWritten)
	return Copied{Run: res.ID, Path: done.Path, Size: done.Size, SHA256: done.SHA256, Notes: done.Notes}, err
}

// Copy copies a file between the host and a session.
func (c *Client) Copy(ctx context.Context, id string, q Copy) (Copied, error) {
	return call[Copied](ctx, c.endless(), http.MethodPost, "/v1/sessions/"+url.PathEscape(id)+"/copy", q)
}
