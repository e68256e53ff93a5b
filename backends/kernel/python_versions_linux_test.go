package kernel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestPythonVersions runs the driver in each installed Python.
func TestPythonVersions(t *testing.T) {
	tested := 0
	for minor := 8; minor < 20; minor++ {
		name := fmt.Sprintf("python3.%d", minor)
		path := pythonVersion(name)
		if path == "" {
			continue
		}
		tested++
		t.Run(name, func(t *testing.T) {
			s := startSession(t, newBare(t, map[string]string{"python": path}), "python")
			for _, c := range []struct{ code, text, stdout string }{
				{"import sys; print('out'); sys.version_info[1]", fmt.Sprint(minor), "out\n"},
				{"import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 'awaited'\nawait f()", "'awaited'", ""},
				{"def g(): 1/0\ng()", "ZeroDivisionError: division by zero", ""},
				{"x = = 1", "SyntaxError: invalid syntax (line 1)", ""},
				{"sys.exit(3)", "", ""},
				{"exit(), 5", "", ""},
				{"import inspect; inspect.getsource(g)", `'def g(): 1/0\n'`, ""},
				{"import os\npid = os.fork()\nif pid == 0: print('child')\nelse: os.waitpid(pid, 0);", "", "child\n"},
				{"import subprocess; subprocess.run(['echo', 'child']).returncode", "0", "child\n"},
				{"import pickle\nclass P: pass\ntype(pickle.loads(pickle.dumps(P()))) is P", "True", ""},
				{"'ok';", "", ""},
			} {
				if r := s.run(c.code); r.text() != c.text || r.Stdout != c.stdout || r.Stderr != "" {
					t.Errorf("%s: got %q %q %q", c.code, r.text(), r.Stdout, r.Stderr)
				} else if r.Error != nil && r.Error.Type == "ZeroDivisionError" &&
					!strings.Contains(r.Error.Traceback, "line 1, in g\n    def g(): 1/0\n") {
					t.Errorf("got %s", r.Error.Traceback)
				}
			}
			if vars, err := s.Variables(t.Context()); err != nil || len(vars) < 3 {
				t.Errorf("got %v %v", vars, err)
			}
			if v, err := s.Get(t.Context(), "pid"); err != nil || len(v) == 0 {
				t.Errorf("got %s %v", v, err)
			}
		})
	}
	if tested == 0 {
		hosttest.SkipMissing(t, "python", "it is not here")
	}
}

// pythonVersion returns the path of an interpreter, also of one that pyenv has installed but not selected.
func pythonVersion(name string) string {
	home, _ := os.UserHomeDir()
	found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin", name))
	for _, path := range append(found, name) {
		out, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}
