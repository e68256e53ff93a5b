package resource

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/mcp/skills"
)

// Skills are resources, for a model to read, and prompts, for a person to pick: name and description first, the text
// on demand.
const skillScheme = "skill://"

func skillURI(name, file string) string { return skillScheme + name + "/" + answer.Escaped(file) }

// listSkills lists the files of the skills.
func (s *Catalog) listSkills() (all []mcp.Resource) {
	if s.Skills == nil {
		return nil
	}
	list, err := s.Skills.List()
	if err != nil {
		s.Log.Warn("skills can't be listed", "error", err)
	}
	for _, one := range list {
		all = append(all, resource(skillURI(one.Name, skills.Main), one.Name, safetext.Model(strings.TrimSpace(one.Description)), "text/markdown",
			int64(len(one.Body))))
		files, err := s.Skills.Files(one.Name)
		if err != nil {
			s.Log.Warn("the files of a skill can't be listed", "skill", one.Name, "error", err)
		}
		for _, f := range files {
			all = append(all, resource(skillURI(one.Name, f.Name), safetext.Model(one.Name+"/"+f.Name), "file of skill "+one.Name, mimeOf(f.Name),
				f.Size))
		}
	}
	return all
}

func mimeOf(name string) string {
	if strings.HasSuffix(name, ".md") {
		return "text/markdown"
	}
	return cmp.Or(mime.TypeByExtension(path.Ext(name)), "text/plain")
}

// readSkill reads a file of a skill; of a SKILL.md, its body.
func (s *Catalog) readSkill(uri string) ([]mcp.ResourceContents, error) {
	name, file, found := strings.Cut(strings.TrimPrefix(uri, skillScheme), "/")
	file, err := url.PathUnescape(file)
	if s.Skills == nil || !found || err != nil {
		return nil, fmt.Errorf("%w of a skill: %.200q", errNoResource, uri)
	}
	var data []byte
	if file == skills.Main {
		one, failed := s.Skills.Get(name)
		data, err = []byte(one.Body), failed
	} else {
		data, err = s.Skills.Read(name, file)
	}
	switch {
	case errors.Is(err, skills.ErrUnknown):
		return nil, fmt.Errorf("%w of a skill: %.200q", errNoResource, uri)
	case err != nil:
		return nil, fmt.Errorf("read %.200q: %v", uri, err)
	}
	return contents(uri, mimeOf(file), data, utf8.Valid(data), nil), nil
}

func (s *Catalog) listPrompts(m *rpc.Message) (mcp.ResultMetadata, *rpc.Fault) {
	if bad := m.RefusePage(); bad != nil {
		return nil, bad
	}
	list := &mcp.ListPromptsResult{Prompts: []mcp.Prompt{}}
	all, err := s.Skills.List()
	if err != nil {
		return nil, m.Refuse(mcp.INTERNAL_ERROR, err.Error())
	}
	for _, one := range all {
		list.Prompts = append(list.Prompts, mcp.Prompt{Name: one.Name, Description: safetext.Model(strings.TrimSpace(one.Description))})
	}
	return list, nil
}

// getPrompt returns the text of a skill, with the names of its files.
func (s *Catalog) getPrompt(m *rpc.Message) (mcp.ResultMetadata, *rpc.Fault) {
	var p struct {
		Name string `json:"name"`
	}
	if bad := m.ReadParams(&p); bad != nil {
		return nil, bad
	}
	one, err := s.Skills.Get(p.Name)
	if err != nil {
		return nil, m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unknown skill %.80q: %v", p.Name, err))
	}
	text := one.Body
	files, err := s.Skills.Files(one.Name)
	if err != nil {
		s.Log.Warn("the files of a skill can't be listed", "skill", one.Name, "error", err)
	}
	if len(files) > 0 {
		text += "\n\nFiles of this skill, as resources:"
	}
	for _, f := range files {
		text += "\n- " + skillURI(one.Name, f.Name)
	}
	return &mcp.GetPromptResult{Description: safetext.Model(strings.TrimSpace(one.Description)),
		Messages: []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))}}, nil
}
