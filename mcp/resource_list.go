package mcp

import (
	"encoding/base64"
	"fmt"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	maxRuns  = 200 // that resources/list tells of, the newest
	pageRuns = 20  // on one page
	maxFiles = 50  // of one run; get_artifacts lists all
)

// runs are the ids of the server's newest runs, the newest first. Those of other servers can be read by who knows their ids,
// and are not listed.
type runs struct {
	mu  sync.Mutex
	ids []string
}

func (r *runs) note(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id == "" || slices.Contains(r.ids[:min(len(r.ids), pageRuns)], id) { // a run in the background is looked at again and again
		return
	}
	r.ids = slices.Insert(r.ids, 0, id)
	r.ids = r.ids[:min(len(r.ids), maxRuns)]
}

// page returns the runs behind one, or the first for "", and whether there are more. There may be none behind one that is forgotten.
func (r *runs) page(behind string) (ids []string, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := 0
	if behind != "" {
		if from = slices.Index(r.ids, behind) + 1; from == 0 {
			from = len(r.ids)
		}
	}
	to := min(from+pageRuns, len(r.ids))
	return slices.Clone(r.ids[from:to]), to < len(r.ids)
}

// listRuns lists the skills, and what the server's runs left.
func (s *Server) listRuns(m *message) (mcp.ResultMetadata, *fault) {
	var p mcp.PaginatedParams
	if bad := m.read(&p); bad != nil {
		return nil, bad
	}
	behind, err := base64.StdEncoding.DecodeString(string(p.Cursor))
	if err != nil || len(behind) > 0 && len(behind) != len("01K00000000000000000000000") {
		return nil, m.refuse(mcp.INVALID_PARAMS, "the cursor is none of this server's: leave it out to begin with the newest run")
	}
	list := &mcp.ListResourcesResult{Resources: []mcp.Resource{}}
	if len(behind) == 0 {
		list.Resources = append(list.Resources, s.listSkills()...)
	}
	ids, more := s.runs.page(string(behind))
	for _, id := range ids {
		list.Resources = append(list.Resources, s.leftBy(id)...)
	}
	if more {
		list.NextCursor = mcp.Cursor(base64.StdEncoding.EncodeToString([]byte(ids[len(ids)-1])))
	}
	return list, nil
}

// leftBy are the resources of a run: its output, if it wrote any, and its files.
func (s *Server) leftBy(id string) (all []mcp.Resource) {
	if s.cfg.Results == nil {
		return nil
	}
	run, err := s.cfg.Results.Metadata(id)
	if err != nil { // it is not there yet, or not any more
		return nil
	}
	about := fmt.Sprintf("%s run that ended %s at %s", run.Language, run.Ended, stamp(run.Time))
	for _, name := range []string{"stdout", "stderr"} {
		p, err := s.cfg.Results.Read(id, name, 0, 1)
		if err != nil || p.Size == 0 {
			continue
		}
		all = append(all, resource(runURI(id, name), name+" of "+id, about, p.MIME, p.Size))
	}
	for _, a := range run.Artifacts[:min(len(run.Artifacts), maxFiles)] {
		if a.Withheld == "" {
			all = append(all, resource(fileURI(id, a.Name), readable(a.Name)+" of "+id, "file left by a "+about, a.MIME, a.Size))
		}
	}
	return all
}

func resource(uri, name, about, mime string, size int64) mcp.Resource {
	r := mcp.NewResource(uri, name, mcp.WithResourceDescription(about), mcp.WithMIMEType(mime))
	r.Size = &size
	return r
}
