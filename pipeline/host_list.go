package pipeline

import (
	"cmp"
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// HostList lists a directory of the host: see files.Access.List. It comes to a [HostListing].
type HostList struct {
	HostCaller
	Path      string
	Recursive bool
	Limit     int // entries; 0 is 1000
}

// HostListing lists a directory by name. The names are free of secrets.
type HostListing struct {
	Entries []files.Entry
	More    bool // there are more than were asked for
}

func (q HostList) subject() subject { return about("host_file_list", q.Namespace, q.Session) }

func (q HostList) plan(ctx context.Context, r *run) (action[HostListing], error) {
	return planFile(ctx, r, q.HostCaller, q.Path, false, func(ctx context.Context, a files.Access) (l HostListing, err error) {
		if l.Entries, l.More, err = a.List(ctx, q.Path, q.Recursive, cmp.Or(max(0, q.Limit), 1000)); err != nil {
			return l, err
		}
		for i := range l.Entries {
			l.Entries[i].Path = r.clean(l.Entries[i].Path)
		}
		r.facts["entries"], r.facts["recursive"] = len(l.Entries), q.Recursive
		return l, nil
	})
}
