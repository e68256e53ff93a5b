package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestInputsAreNotOurs tries to have our own files copied into the workspace: by their names, by a link, and with a
// directory that holds them.
func TestInputsAreNotOurs(t *testing.T) {
	dir := project(t, map[string]string{"data.csv": "1", "state/keys/signing.key": "key", "config.yaml": "network: deny"})
	if err := os.Symlink("state/keys/signing.key", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := pipelinetest.NewRig(t, func(c *pipeline.Config) {
		c.Protected = []string{filepath.Join(dir, "state"), filepath.Join(dir, "config.yaml")}
	})
	for _, name := range []string{"state", "state/keys", "state/keys/signing.key", "config.yaml", "link"} {
		_, err := r.Shell("true", func(q *run.Request) { q.Inputs = []run.Input{{Host: filepath.Join(dir, name)}} })
		if err == nil || !strings.Contains(err.Error(), "which belongs to sandboxmcp") {
			t.Errorf("input %s: %v; want a refusal", name, err)
		}
	}
	res, err := r.Shell("find all -type f", func(q *run.Request) { q.Inputs = []run.Input{{Host: dir, Name: "all"}} })
	if err != nil || res.Stdout != "all/data.csv\n" {
		t.Errorf("copied %q, %v; want data.csv alone", res.Stdout, err)
	}
	if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0].String(), "sandboxmcp's own") {
		t.Errorf("warnings: %q", res.Warnings)
	}
}

// A cell's inputs are not ours either.
func TestCellInputsAreNotOurs(t *testing.T) {
	dir := project(t, map[string]string{"state/keys/signing.key": "key"})
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Protected = []string{filepath.Join(dir, "state")} })
	s := pipelinetest.Open(t, p, session.New{})
	_, _, err := pipeline.Do(t.Context(), p, run.Request{
		Where: run.Where{Session: s.ID}, Code: []byte("1"), Inputs: []run.Input{{Host: filepath.Join(dir, "state/keys/signing.key")}},
	})
	if err == nil || !strings.Contains(err.Error(), "which belongs to sandboxmcp") {
		t.Errorf("input of a cell: %v; want a refusal", err)
	}
}
