package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestContainersLimits reads limits from directories like those of the kernel.
func TestContainersLimits(t *testing.T) {
	const ram, files = 512 << 20, 256 << 20
	const own = "872415232" // RAM and files, and 64 MiB for the init
	for _, c := range []struct {
		name    string
		v2      bool
		files   map[string]string
		limits  []string
		err     error
		madeFor bool
	}{
		{"all, v2", true, map[string]string{"memory.max": own, "pids.max": "64", "cpu.max": "50000 100000"}, []string{"memory", "pids", "cpu"},
			nil, true},
		{"not handed down, v2", true, map[string]string{"memory.max": own, "pids.max": "64"}, []string{"memory", "pids"}, nil, true},
		{"no quota, v2", true, map[string]string{"memory.max": own, "pids.max": "max", "cpu.max": "max 100000"}, []string{"memory"}, nil, true},
		{"none, v2", true, map[string]string{"memory.max": "max", "pids.max": "max", "cpu.max": "max 100000"}, nil, ErrUnlimited, false},
		{"the engine's own, v2", true, map[string]string{"memory.max": "3221225472", "pids.max": "max", "cpu.max": "max 100000"},
			[]string{"memory"}, nil, false},
		{"covered by the server, v2", true, map[string]string{"memory.max": "536870912"}, []string{"memory"}, nil, true},
		{"less than asked for, v2", true, map[string]string{"memory.max": "536870911"}, []string{"memory"}, nil, false},
		{"all, v1", false, map[string]string{"memory.limit_in_bytes": own, "pids.max": "64", "cpu.cfs_quota_us": "50000"},
			[]string{"memory", "pids", "cpu"}, nil, true},
		{"no quota, v1", false, map[string]string{"memory.limit_in_bytes": own, "pids.max": "max", "cpu.cfs_quota_us": "-1"}, []string{"memory"},
			nil, true},
		{"none, v1", false, map[string]string{"memory.limit_in_bytes": "9223372036854771712", "pids.max": "max", "cpu.cfs_quota_us": "-1"}, nil,
			ErrUnlimited, false},
		{"the engine's own, v1", false, map[string]string{"memory.limit_in_bytes": "3221225472", "pids.max": "1000", "cpu.cfs_quota_us": "-1"},
			[]string{"memory", "pids"}, nil, false},
		{"nothing to be read", false, nil, nil, ErrUnlimited, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			g := &Group{readOnly: true, paths: map[string]string{"memory": dir, "pids": dir, "cpu": dir}}
			if c.v2 {
				g.paths = map[string]string{"": dir}
			}
			if err := g.readLimits(); err != c.err || !slices.Equal(g.limits, c.limits) {
				t.Errorf("limits of %v, %v; want %v, %v", g.limits, err, c.limits, c.err)
			}
			if got := g.MatchesLimits(ram, files); got != c.madeFor {
				t.Errorf("made for the sandbox: %v", got)
			}
		})
	}
}
