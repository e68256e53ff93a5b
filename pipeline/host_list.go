package pipeline

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
)

// HostList asks what is in a directory of the host.
type HostList struct {
	HostCaller
	Path      string
	Recursive bool
	Limit     int // entries; 0 is 1000
}

// HostListing lists a directory by name. The names are free of secrets.
type HostListing struct {
	Result
	Entries []files.Entry
	More    bool // there are more than were asked for
}

// ListHostDirectory lists a directory: see files.Access.List.
func (p *Pipeline) ListHostDirectory(ctx context.Context, q HostList) (HostListing, error) {
	var l HostListing
	var err error
	if q.Limit <= 0 {
		q.Limit = 1000
	}
	l.Result, err = p.hostFile(ctx, q.HostCaller, "host_file_list", q.Path, false, func(ctx context.Context, r *run, a files.Access) (err error) {
		if l.Entries, l.More, err = a.List(ctx, q.Path, q.Recursive, q.Limit); err != nil {
			return err
		}
		for i := range l.Entries {
			l.Entries[i].Path = r.clean(l.Entries[i].Path)
		}
		r.facts["entries"], r.facts["recursive"] = len(l.Entries), q.Recursive
		return nil
	})
	if err != nil {
		return HostListing{Result: l.Result}, err
	}
	return l, nil
}
