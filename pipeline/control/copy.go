package control

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

// Copy copies a file between the host and a session: see host.CopyFile.
type Copy struct {
	OfSession
	Source      string `json:"source" about:"A path: absolute on the host, or relative in the session." range:"1..4096" required:"true"`
	Destination string `json:"destination" about:"A path, in the same form." range:"1..4096" required:"true"`
	Overwrite   bool   `json:"overwrite,omitempty" about:"Replaces an existing file."`
}

// CopiedFile describes the copied file.
type CopiedFile struct {
	Run    string   `json:"run"`
	Path   string   `json:"path"`
	Size   int64    `json:"size_bytes"`
	SHA256 string   `json:"sha256,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

func (a *API) copy(ctx context.Context, q *Copy) (CopiedFile, error) {
	info, err := a.findSession(ctx, q.ID)
	if err != nil {
		return CopiedFile{}, err
	}
	done, res, err := pipeline.Do(ctx, a.c.Pipeline, host.CopyFile{
		Caller: host.Caller{Namespace: info.Namespace, Session: info.ID},
		Source: q.Source, Destination: q.Destination, Overwrite: q.Overwrite,
	})
	return CopiedFile{Run: res.ID, Path: done.Path, Size: done.Size, SHA256: done.SHA256, Notes: done.Notes}, err
}
