package e2b

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/response"
)

// Template is what sandboxes of a name are made in. The zero value is the operator's default backend and profile.
type Template struct{ Backend, Profile string }

// The templates that SDKs ask for where nobody names one. The configuration may give them another meaning.
var builtin = []string{"base", "code-interpreter-v1"}

// template returns the template of a name, which may have a tag behind it.
func (s *Server) template(name string) (Template, bool) {
	name, tag, _ := strings.Cut(name, ":")
	if tag != "" && tag != "latest" && tag != "default" {
		return Template{}, false
	}
	t, ok := s.cfg.Templates[name]
	return t, ok || slices.Contains(builtin, name)
}

func (s *Server) templates() []string {
	names := slices.AppendSeq(slices.Clone(builtin), maps.Keys(s.cfg.Templates))
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *Server) templateNames() string { return strings.Join(s.templates(), ", ") }

// describe returns a template as E2B's API lists it. Nothing builds it, so it has neither builds nor dates.
func (s *Server) describe(name string) map[string]any {
	var never time.Time
	return map[string]any{"templateID": name, "buildID": name, "cpuCount": 1, "memoryMB": 128, "diskSizeMB": 0, "public": true, "aliases": []string{name},
		"names": []string{name}, "createdAt": never, "updatedAt": never, "createdBy": nil, "lastSpawnedAt": nil, "spawnCount": 0, "buildCount": 0,
		"envdVersion": envdVersion, "buildStatus": "ready", "builds": []int{}}
}

func (s *Server) listTemplates(w http.ResponseWriter, _ *http.Request, _ caller) error {
	list := []map[string]any{}
	for _, name := range s.templates() {
		list = append(list, s.describe(name))
	}
	return response.Reply(w, http.StatusOK, list)
}

func (s *Server) getTemplate(w http.ResponseWriter, r *http.Request, _ caller) error {
	if _, ok := s.template(r.PathValue("id")); !ok {
		return response.Refuse(http.StatusNotFound, "template not found: there are "+s.templateNames())
	}
	return response.Reply(w, http.StatusOK, s.describe(r.PathValue("id")))
}

func (s *Server) getAlias(w http.ResponseWriter, r *http.Request, _ caller) error {
	if _, ok := s.template(r.PathValue("id")); !ok {
		return response.Refuse(http.StatusNotFound, "template not found: there are "+s.templateNames())
	}
	return response.Reply(w, http.StatusOK, map[string]any{"templateID": r.PathValue("id"), "public": true})
}
