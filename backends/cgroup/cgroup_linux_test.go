package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestSwap checks that no process of a cgroup uses swap beyond its memory limit, whatever the limit was before.
func TestSwap(t *testing.T) {
	g, err := newGroups(t).Create()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove()
	file := filepath.Join(g.paths["memory"], "memory.memsw.limit_in_bytes") // memory and swap together
	if g.V2() {
		file = filepath.Join(g.paths[""], "memory.swap.max")
	}
	if _, err := os.Stat(file); err != nil {
		hosttest.SkipMissing(t, "swap limit", "this kernel counts no swap: "+err.Error())
	}
	for _, c := range []struct {
		memory int64
		v1     string
	}{{64 << 20, "67108864"}, {96 << 20, "100663296"}, {32 << 20, "33554432"}} {
		if err := g.Limit(Bounds{Memory: c.memory, Sockets: 1 << 20, CPU: 1, Tasks: 10}); err != nil {
			t.Fatal(err)
		}
		want := c.v1
		if g.V2() {
			want = "0"
		}
		got, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("with %d bytes of memory, %s has %q, want %s: %v", c.memory, filepath.Base(file), got, want, err)
		}
	}
}
