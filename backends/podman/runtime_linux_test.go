package podman

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// TestChooseRuntime checks that runc is used where crun can't create containers, and that this is reported.
func TestChooseRuntime(t *testing.T) {
	if !hybridCgroups() {
		t.Skip("this host does not mix cgroup v1 and v2")
	}
	for _, test := range []struct {
		installed, def string
		named, used    string
		hint           string
	}{
		{"runc", "runc", "", "runc", ""},
		{"crun runc", "crun", "runc", "runc", "runc is used"},
		{"crun runc", "runc", "", "runc", "runc is used"},
		{"crun", "crun", "", "crun", "install runc"},
	} {
		dir := t.TempDir()
		for name := range strings.FieldsSeq(test.installed) {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		f := facts{Info: container.Info{Local: true, Runtime: test.def}}
		f.chooseRuntime(environ{"PATH": dir})
		if f.runtime != test.named || f.Runtime != test.used || !strings.HasSuffix(f.Hint, test.hint) || (f.Hint == "") != (test.hint == "") {
			t.Errorf("%+v: got %q, %q, %q", test, f.runtime, f.Runtime, f.Hint)
		}
	}
}
