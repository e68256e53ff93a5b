package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInputsAreNotOurs tries to have our own files copied into the workspace: by their names, by a link, and with a directory that
// holds them.
func TestInputsAreNotOurs(t *testing.T) {
	dir := project(t, map[string]string{"data.csv": "1", "state/keys/signing.key": "key", "config.yaml": "network: deny"})
	if err := os.Symlink("state/keys/signing.key", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) {
		c.Protected = []string{filepath.Join(dir, "state"), filepath.Join(dir, "config.yaml")}
	})
	for _, name := range []string{"state", "state/keys", "state/keys/signing.key", "config.yaml", "link"} {
		_, err := r.shell("true", func(q *Request) { q.Inputs = []Input{{Host: filepath.Join(dir, name)}} })
		if err == nil || !strings.Contains(err.Error(), "which is sandboxmcp's own") {
			t.Errorf("input %s: %v; want a refusal", name, err)
		}
	}
	res, err := r.shell("find all -type f", func(q *Request) { q.Inputs = []Input{{Host: dir, Name: "all"}} })
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
	p, _, _ := newReal(t, func(c *Config) { c.Protected = []string{filepath.Join(dir, "state")} })
	s := open(t, p, NewSession{})
	_, _, err := Do(t.Context(), p, Request{
		Where: Where{Session: s.ID}, Code: []byte("1"), Inputs: []Input{{Host: filepath.Join(dir, "state/keys/signing.key")}},
	})
	if err == nil || !strings.Contains(err.Error(), "which is sandboxmcp's own") {
		t.Errorf("input of a cell: %v; want a refusal", err)
	}
}
