package process

import (
	"fmt"
	"os"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// TestOneFilter counts the filters that we load: each BPF program costs host memory that no cgroup counts, and a
// lock. PID 1 loads the filter, and its children load none.
func TestOneFilter(t *testing.T) {
	for name, spec := range map[string]backends.Spec{"once": {Language: "shell"}, "in a session": {Language: "shell", Keep: true},
		"landlock": {Language: "shell", Profile: "landlock"}} {
		t.Run(name, func(t *testing.T) {
			needProfile(t, spec.Profile)
			s, err := newBackend(t, Config{}).Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.(*Sandbox).pid))
			if got := procfs.StatusField(text, "Seccomp_filters"); got != "1" {
				t.Errorf("PID 1 has %q filters: %v", got, err)
			}
			if got := runScript(t, s.(*Sandbox), "while read -r name n; do case $name in Seccomp_filters:) echo $n; esac; done </proc/self/status"); got != "1\n" {
				t.Errorf("%q filters", got)
			}
		})
	}
}
