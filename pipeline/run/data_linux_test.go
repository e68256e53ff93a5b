package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestData: runs and sessions see the directories of data that they ask for, cannot write to them, and get no other.
func TestData(t *testing.T) {
	dir := t.TempDir()
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		os.Chmod(at, 0o755) // programs run as somebody else
	}
	if err := os.WriteFile(filepath.Join(dir, "numbers"), []byte("6 7"), 0o644); err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		c.Data = map[string]string{"sets": dir, "gone": filepath.Join(dir, "gone"), "own": own}
		c.Protected = []string{own}
	})
	code := "cat /data/sets/numbers; ls /data; touch /data/sets/x 2>/dev/null || echo no"
	if _, res, err := pipeline.Do(t.Context(), p, run.Request{
		Language: "shell", Code: []byte(code), HostFiles: run.HostFiles{Data: []string{"sets", "sets"}},
	}); err != nil || res.Stdout != "6 7sets\nno\n" {
		t.Errorf("a run: %q %s %v", res.Stdout, res.Stderr, err)
	}
	s := pipelinetest.Open(t, p, session.New{Language: "shell", Data: []string{"sets"}})
	if res := pipelinetest.Cell(t, p, s.ID, code, nil); res.Stdout != "6 7sets\nno\n" {
		t.Errorf("a session: %q %s", res.Stdout, res.Stderr)
	}
	if created := strings.Join(pipelinetest.Rows(t, log, "session.created"), "\n"); !strings.Contains(created, `"data":["sets"]`) {
		t.Errorf("the log has %s", created)
	}
	for name, q := range map[string]doing{
		"choose from: gone, own, sets": doingOf(run.Request{Language: "shell", Code: []byte("true"),
			HostFiles: run.HostFiles{Data: []string{"../sets"}}}),
		"does not exist":        doingOf(session.New{Language: "shell", Data: []string{"gone"}}),
		"belongs to sandboxmcp": doingOf(session.New{Language: "shell", Data: []string{"own"}}),
		"can't have mounts": doingOf(run.Request{Where: run.Where{Session: s.ID}, Code: []byte("true"),
			HostFiles: run.HostFiles{Data: []string{"sets"}}}),
	} {
		_, err := q(t.Context(), p)
		if e, _ := errors.AsType[*pipeline.Error](err); e == nil || !e.Denied || !strings.Contains(e.Error()+e.Remedy.String(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
