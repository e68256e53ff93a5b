package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCoverEach covers the files of a shared cgroup, and the whole cgroup where single files would show more.
func TestCoverEach(t *testing.T) {
	for _, c := range []struct {
		name, below string
		files, want []string
		shared      bool
	}{
		{"a scope", "", []string{"memory.max", "cgroup.controllers", "memory.pressure"}, []string{"memory.max", "cgroup.controllers"}, false},
		{"no limit to cover", "", []string{"cgroup.controllers"}, nil, true},
		{"others below", "app.slice", []string{"memory.max"}, nil, true},
		{"not there", "", nil, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "scope")
			if c.files != nil {
				if err := os.MkdirAll(filepath.Join(dir, c.below), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h := coverEach(Hierarchy{Type: "cgroup2", Shared: true}, dir)
			if h.Shared != c.shared || !slices.Equal(h.Covers, c.want) {
				t.Errorf("got %+v, want %v, shared %v", h, c.want, c.shared)
			}
		})
	}
}
