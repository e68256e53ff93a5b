package mcp

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/mcp/skills"
)

// TestSkillResources: skills are listed as resources and prompts, and read from the disk at each request.
func TestSkillResources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs.\n---\n# How\n")
	write("pdf/ref/a b.md", "more")
	write("pdf/logo.png", "\x89PNG\xff")
	write("bad/SKILL.md", "# no front matter")
	open, err := skills.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { open.Close() })
	r := newRig(t, func(c *Config) { c.Skills = open })
	p := r.connect()
	if hello := p.initialize("2025-11-25", `{}`); !strings.Contains(string(hello.Result), `"prompts":{}`) {
		t.Errorf("capabilities: %s", hello.Result)
	}
	for _, c := range []struct{ method, params, want string }{
		{"resources/list", `{}`, `"uri":"skill://pdf/SKILL.md"`},
		{"resources/list", `{}`, `"uri":"skill://pdf/ref/a%20b.md"`},
		{"resources/read", `{"uri":"skill://pdf/SKILL.md"}`, `"text":"# How"`},
		{"resources/read", `{"uri":"skill://pdf/ref/a%20b.md"}`, `"text":"more"`},
		{"resources/read", `{"uri":"skill://pdf/logo.png"}`, `"blob":"iVBOR/8="`},
		{"prompts/list", `{}`, `"prompts":[{"name":"pdf","description":"Reads PDFs."}]`},
		{"prompts/get", `{"name":"pdf"}`, `# How\n\nFiles of this skill, as resources:\n- skill://pdf/logo.png\n- skill://pdf/ref/a%20b.md`},
	} {
		if got := p.call(c.method, c.params); !strings.Contains(string(got.Result), c.want) || strings.Contains(string(got.Result), "bad") {
			t.Errorf("%s %s: %s %v", c.method, c.params, got.Result, got.Error)
		}
	}
	write("pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDFs.\n---\n# Other\n")
	if got := p.call("resources/read", `{"uri":"skill://pdf/SKILL.md"}`); !strings.Contains(string(got.Result), "# Other") {
		t.Errorf("after a change: %s", got.Result)
	}
	for method, params := range map[string][]string{
		"resources/read": {`{"uri":"skill://pdf/../../etc/passwd"}`, `{"uri":"skill://pdf/..%2f..%2fetc/passwd"}`,
			`{"uri":"skill://pdf//etc/passwd"}`, `{"uri":"skill://bad/SKILL.md"}`,
			`{"uri":"skill://none/SKILL.md"}`, `{"uri":"skill://"}`, `{"uri":"skill://pdf/%zz"}`, `{"uri":"skill://%2e%2e/x"}`},
		"prompts/get": {`{"name":"none"}`, `{"name":"bad"}`, `{}`, `{"name":".."}`},
	} {
		for _, one := range params {
			if got := p.call(method, one); got.Error == nil {
				t.Errorf("%s %s: %s", method, one, got.Result)
			}
		}
	}
}
