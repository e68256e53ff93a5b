package e2b

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// Template is the backend and profile of sandboxes. The zero value is the operator's default.
type Template struct{ Backend, Profile, Workspace string }

// builtin are the SDKs' default templates. The configuration may redefine them.
var builtin = []string{"base", "code-interpreter-v1"}

// template returns the template with a name, which may have a tag.
func (s *Server) template(name string) (Template, bool) {
	name, tag, _ := strings.Cut(name, ":")
	if tag != "" && tag != "latest" && tag != "default" {
		return Template{}, false
	}
	t, ok := s.cfg.Templates[name]
	return t, ok || slices.Contains(builtin, name)
}

func (s *Server) templateNames() string {
	names := slices.AppendSeq(slices.Clone(builtin), maps.Keys(s.cfg.Templates))
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func (s *Server) getAlias(w http.ResponseWriter, r *http.Request, _ caller) error {
	if _, ok := s.template(r.PathValue("id")); !ok {
		return door.Refuse(http.StatusNotFound, "template not found: use one of "+s.templateNames())
	}
	return door.Reply(w, http.StatusOK, map[string]any{"templateID": r.PathValue("id"), "public": true})
}
