package validate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestMissingModule(t *testing.T) {
	tests := []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"Python", "Traceback (most recent call last):\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'numpy'\n", "numpy"},
		{"submodule", "ModuleNotFoundError: No module named 'a.b'", "a.b"},
		{"Windows line ends", "ModuleNotFoundError: No module named 'a'\r\n", "a"},
		{"no package", "ModuleNotFoundError: No module named 'a.b'; 'a' is not a package", "a.b"},
		{"group", "    | ModuleNotFoundError: No module named 'a'\n    +-----", "a"},
		{"chain: the last one ended it", "ModuleNotFoundError: No module named 'a'\n\nDuring handling\n\nModuleNotFoundError: No module " +
			"named 'b'\n", "b"},
		{"another exception ended it", "ModuleNotFoundError: No module named 'a'\n\nDuring handling of the above exception, another exception " +
			"occurred:\n\nTraceback (most recent call last):\nValueError: x\n", ""},
		{"require", "node:internal/modules/cjs/loader:1\n  throw err;\n\nError: Cannot find module './util'\nRequire stack:\n- " +
			"/workspace/a.js\n    at x {\n  code: 'MODULE_NOT_FOUND',\n", "./util"},
		{"import", "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'lodash' imported from /workspace/a.mjs\n", "lodash"},
		{"import of a file", "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/workspace/u.js' imported from /workspace/a.mjs\n",
			"/workspace/u.js"},
		{"in the middle of a line", "print: ModuleNotFoundError: No module named 'a'", ""},
		{"no end", "ModuleNotFoundError: No module named 'a", ""},
		{"empty", "ModuleNotFoundError: No module named ''", ""},
		{"control characters", "ModuleNotFoundError: No module named 'a\x1b[31m'", ""},
		{"long", "ModuleNotFoundError: No module named '" + strings.Repeat("a", 1000) + "'", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := MissingModule(tt.stderr); got != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got, ok, tt.want)
			}
		})
	}
}

// TestMissingModuleForReal runs this machine's interpreters.
func TestMissingModuleForReal(t *testing.T) {
	tests := []struct{ program, file, source, want string }{
		{"python3", "a.py", "import no_such_thing.at_all", "no_such_thing"},
		{"python3", "b.py", "try:\n    import no_such_thing\nexcept ImportError:\n    raise ValueError('x')", ""},
		{"node", "a.js", "require('no-such-thing')", "no-such-thing"},
		{"node", "b.js", "require('./no/such')", "./no/such"},
		{"node", "a.mjs", "import 'no-such-thing'", "no-such-thing"},
		{"node", "b.mjs", "await import('@scope/thing/sub')", "@scope/thing"},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), tt.file)
			if err := os.WriteFile(file, []byte(tt.source), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(hosttest.Program(t, tt.program), file)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			cmd.Run()
			if got, _ := MissingModule(stderr.String()); got != tt.want {
				t.Errorf("got %q, want %q from:\n%s", got, tt.want, &stderr)
			}
		})
	}
}

func FuzzMissingModule(f *testing.F) {
	f.Add("ModuleNotFoundError: No module named 'a'\n")
	f.Add("Error: Cannot find module 'a'")
	f.Fuzz(func(t *testing.T, stderr string) {
		module, ok := MissingModule(stderr)
		if ok != (module != "") || !strings.Contains(stderr, module) || escapeInvisible(module) != module {
			t.Errorf("got %q, %v", module, ok)
		}
	})
}
