package mcp

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// TestWhatItHas: list_runtimes lists packages as programs see them, domains and names of secrets. The instructions
// list the same, without packages.
func TestWhatItHas(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	got := p.tool("list_runtimes", `{}`).text
	contains(t, got, "secrets of namespace default: TEST_SECRET", "programs reach no hosts unless")
	for _, module := range []string{"numpy", "pandas", "requests"} {
		version, err := exec.Command("python3", "-c", "import importlib.metadata as m; print(m.version('"+module+"'))").Output()
		if err != nil {
			continue // the host's Python lacks it
		}
		contains(t, got, module+" "+strings.TrimSpace(string(version)))
	}
	contains(t, got, "\n  programs: ")
	if again := p.tool("list_runtimes", `{"namespace":"other"}`).text; strings.Contains(again, "TEST_SECRET") {
		t.Errorf("another namespace: %s", again)
	}
	for _, connect := range []string{"2025-11-25", "2026-07-28"} {
		text := instructionsOf(t, r.connect(), connect)
		contains(t, text, "list_runtimes", "TEST_SECRET")
		if n := utf8.RuneCountInString(text); n > maxInstructions {
			t.Errorf("%s: %d characters", connect, n)
		}
	}
}

// TestManyToTell: with many entries, instructions stay short and lists valid.
func TestManyToTell(t *testing.T) {
	var allow []string
	for c := 'a'; c <= 'z'; c++ {
		allow = append(allow, strings.Repeat(string(c), 60)+".example.com")
	}
	policy, err := egress.NewPolicy(append(allow, "*.first.example", "db.example:5432"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, nil)
	cfg := r.cfg
	cfg.Pipeline = pipeline.New(pipeline.Config{Egress: pipeline.Egress{Policy: policy}})
	defer cfg.Pipeline.Close()
	text := instructionsOf(t, (&rig{t: t, cfg: cfg, s: New(cfg)}).connect(), "2025-11-25")
	contains(t, text, "*.first.example", " more")
	if n := utf8.RuneCountInString(text); n > maxInstructions {
		t.Errorf("%d characters: %s", n, text)
	}
}

// instructionsOf returns the instructions for a client of a protocol version.
func instructionsOf(t *testing.T, p *peer, version string) string {
	t.Helper()
	var got struct{ Instructions string }
	m := reply{}
	if version < "2026" {
		m = p.initialize(version, `{}`)
	} else {
		m = p.call("server/discover", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+
			`","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}`)
	}
	if err := json.Unmarshal(m.Result, &got); err != nil {
		t.Fatalf("%v: %s", err, m.line)
	}
	return got.Instructions
}
