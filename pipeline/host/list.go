package host

import (
	"cmp"
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// ListDirectory lists a directory of the host: see files.Access.List. Its answer is a [Listing].
type ListDirectory struct {
	Caller
	Path      string
	Recursive bool
	Limit     int // entries; 0 is 1000
}

// Listing lists a directory by name. The names contain no secrets.
type Listing struct {
	Entries []files.Entry
	More    bool // there are more entries
}

func (q ListDirectory) Subject() pipeline.Subject {
	return pipeline.About("host_file_list", q.Namespace, q.Session)
}

func (q ListDirectory) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[Listing], error) {
	return planFile(ctx, r, q.Caller, q.Path, false, func(ctx context.Context, a files.Access) (l Listing, err error) {
		if l.Entries, l.More, err = a.List(ctx, q.Path, q.Recursive, cmp.Or(max(0, q.Limit), 1000)); err != nil {
			return l, err
		}
		for i := range l.Entries {
			l.Entries[i].Path = r.Clean(l.Entries[i].Path)
		}
		r.Facts["entries"], r.Facts["recursive"] = len(l.Entries), q.Recursive
		return l, nil
	})
}
