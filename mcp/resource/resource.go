// Package resource serves resources and prompts: the output and artifacts of runs, and the files of skills.
//
// resources/list returns the skills, and then the newest runs of this server, a page at a time, each with its output
// and files. resources/read parses a URI of either and returns a part of its content, as text if all of it is text.
// Skills are prompts too, for a person to pick.
//
// The files in order, each of which calls those behind it: resource, read, skill, content.
package resource

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/mcp/skills"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

const (
	maxRuns  = 200 // the newest runs, in resources/list
	pageRuns = 20  // on one page
	maxFiles = 50  // of one run; get_artifacts lists all
)

// Catalog is the set of resources: the results of this server's runs, and the files of skills.
type Catalog struct {
	Results   *results.Store    // nil stores none
	Skills    *skills.Directory // nil has none
	Namespace string            // namespace of the readable runs; "" is all
	// Changes returns the difference of a namespace's change set, "" being all namespaces.
	Changes func(namespace, id string) (string, error)
	Log     *slog.Logger

	mu  sync.Mutex
	ids []string // newest first; a client can read other servers' runs if it knows their ids
}

// Methods returns the handlers of resources, and of prompts if there are skills.
func (s *Catalog) Methods() map[mcp.MCPMethod]func(*rpc.Message) (mcp.ResultMetadata, *rpc.Fault) {
	all := map[mcp.MCPMethod]func(*rpc.Message) (mcp.ResultMetadata, *rpc.Fault){
		mcp.MethodResourcesList: s.listRuns, mcp.MethodResourcesTemplatesList: s.listTemplates, mcp.MethodResourcesRead: s.readResource,
	}
	if s.Skills != nil {
		all[mcp.MethodPromptsList], all[mcp.MethodPromptsGet] = s.listPrompts, s.getPrompt
	}
	return all
}

// AddRun adds a run to the newest ones.
func (s *Catalog) AddRun(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" || slices.Contains(s.ids[:min(len(s.ids), pageRuns)], id) { // a background run is polled repeatedly
		return
	}
	s.ids = slices.Insert(s.ids, 0, id)
	s.ids = s.ids[:min(len(s.ids), maxRuns)]
}

// page returns the runs after one, or the first ones for "", and whether there are more. After a forgotten run there
// are none.
func (s *Catalog) page(behind string) (ids []string, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := 0
	if behind != "" {
		if from = slices.Index(s.ids, behind) + 1; from == 0 {
			from = len(s.ids)
		}
	}
	to := min(from+pageRuns, len(s.ids))
	return slices.Clone(s.ids[from:to]), to < len(s.ids)
}

// listRuns lists the skills and the results of runs.
func (s *Catalog) listRuns(m *rpc.Message) (mcp.ResultMetadata, *rpc.Fault) {
	var p mcp.PaginatedParams
	if bad := m.ReadParams(&p); bad != nil {
		return nil, bad
	}
	behind, err := base64.StdEncoding.DecodeString(string(p.Cursor))
	if err != nil || len(behind) > 0 && len(behind) != len("01K00000000000000000000000") {
		return nil, m.Refuse(mcp.INVALID_PARAMS, "unknown cursor: omit it to begin with the newest run")
	}
	list := &mcp.ListResourcesResult{Resources: []mcp.Resource{}}
	if len(behind) == 0 {
		list.Resources = append(list.Resources, s.listSkills()...)
	}
	ids, more := s.page(string(behind))
	for _, id := range ids {
		list.Resources = append(list.Resources, s.resourcesOf(id)...)
	}
	if more {
		list.NextCursor = mcp.Cursor(base64.StdEncoding.EncodeToString([]byte(ids[len(ids)-1])))
	}
	return list, nil
}

// resourcesOf returns the resources of a run: its output, if any, and its files.
func (s *Catalog) resourcesOf(id string) (all []mcp.Resource) {
	if s.Results == nil {
		return nil
	}
	run, err := s.Results.Metadata(id)
	if err != nil { // unfinished, or deleted
		return nil
	}
	about := fmt.Sprintf("%s run, ended %s at %s", run.Language, run.Ended, answer.Stamp(run.Time))
	for _, name := range []string{"stdout", "stderr"} {
		p, err := s.Results.Read(id, name, 0, 1)
		if err != nil || p.Size == 0 {
			continue
		}
		all = append(all, resource(answer.RunURI(id, name), name+" of "+id, about, p.MIME, p.Size))
	}
	for _, a := range run.Artifacts[:min(len(run.Artifacts), maxFiles)] {
		if a.Withheld == "" {
			all = append(all, resource(answer.FileURI(id, a.Name), safetext.Model(a.Name)+" of "+id, "artifact of a "+about, a.MIME, a.Size))
		}
	}
	return all
}
