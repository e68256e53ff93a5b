package warm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// covering removes Python's record of an uncaught exception.
const covering = `import sys
def cover(*_):
  for name in 'last_type', 'last_value', 'last_traceback', 'last_exc':
    sys.__dict__.pop(name, None)
`

// buffered makes the standard streams buffer their output.
const buffered = "import os, sys\nfor one in sys.stdout, sys.stderr: one.reconfigure(write_through=False, line_buffering=False)\n"

// exits are programs whose exit code is visible nowhere else, or is decided at the very end.
var exits = []struct {
	name, text string
	want       int
}{
	{"end", "print('x')", 0},
	{"exit", "import sys\nsys.exit(7)", 7},
	{"full stdout", "import sys\nsys.stdout = open('/dev/full', 'w')\nprint('x')", 120},
	{"full stdout descriptor", buffered + "print('x')\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)", 0},
	{"own stdout on a closed descriptor", "import os, sys\nsys.stdout = os.fdopen(1, 'w')\nprint('x')\nos.close(1)", 120},
	{"stdout's descriptor closed", buffered + "print('x')\nos.close(1)", 0},
	{"stdout closed", "import sys\nsys.stdout.close()", 0},
	{"full stderr", "import sys\nsys.stderr = open('/dev/full', 'w')\nprint('x', file=sys.stderr)", 120},
	{"full stderr descriptor", buffered + "print('x', file=sys.stderr)\nos.dup2(os.open('/dev/full', os.O_WRONLY), 2)", 0},
	{"stdout that raises", "import sys\nclass Out:\n  def write(self, text): pass\n  def flush(self): raise OSError('lost')\n  def " +
		"__repr__(self): return 'Out'\nsys.stdout = Out()", 120},
	{"last words to a full stdout", buffered + "class Last:\n  def __del__(self, print=print, os=os):\n    os.dup2(os.open('/dev/full', " +
		"os.O_WRONLY), 1)\n    print('x')\nlast = Last()", 0},
	{"last words to a full stderr", buffered + "class Last:\n  def __del__(self, sys=sys, os=os):\n    os.dup2(os.open('/dev/full', " +
		"os.O_WRONLY), 2)\n    sys.stderr.write('x')\nlast = Last()", 0},
	{"forked child", "import os, sys\npid = os.fork()\nif pid == 0:\n  sys.stdout = open('/dev/full', 'w')\n  print('x')\nelse:\n " +
		" print(os.waitpid(pid, 0)[1] >> 8)", 0},
	{"forked child exits", "import os, sys\npid = os.fork()\nif pid == 0:\n  del __file__, __cached__\n  " +
		"sys.exit(5)\nprint(os.waitpid(pid, 0)[1] >> 8)", 0},
	{"excepthook covers", covering + "sys.excepthook = cover\n1/0", 1},
	{"atexit covers", covering + "import atexit\natexit.register(cover)\n1/0", 1},
	{"thread covers", covering + "import threading, time\ndef late():\n  while not hasattr(sys, 'last_value'): time.sleep(.001)\n " +
		" time.sleep(.05)\n  cover()\nthreading.Thread(target=late).start()\n1/0", 1},
	{"exception covers", covering + "class Fault(Exception):\n  def __str__(self):\n    cover()\n    return 'x'\nraise Fault", 1},
	{"another main", "import sys, types\nmain = types.ModuleType('__main__')\nmain.__loader__ = __loader__\nsys.modules['__main__'] " +
		"= main\nsys.exit(7)", 7},
	{"nameless", "import sys\ndel __file__, __cached__\nsys.exit(7)", 7},
	{"nameless end", "del __file__, __cached__", 0},
	{"emptied", "import sys\nkept = {k: v for k, v in globals().items() if k in ('__name__', '__loader__', '__spec__')}\nleave = " +
		"sys.exit\nfor name in list(globals()):\n  if name not in ('kept', 'leave'): del globals()[name]\nglobals().update(kept)\nleave('bad')",
		1},
	{"all cleared", "import sys\nleave = sys.exit\n(lambda leave, all: (all.clear(), leave('bad')))(leave, globals())", 1},
	{"exit in atexit", "import atexit, sys\natexit.register(sys.exit, 4)", 0},
	{"exit beside logging", "import logging, sys\ndel __file__, __cached__\nsys.exit(7)", 7},
	{"exit covers", covering + "import atexit\natexit.register(cover)\nraise SystemExit(9)", 9},
}

// TestZygoteExitCodes compares the exit codes of programs in a zygote's forks and outside of a sandbox.
func TestZygoteExitCodes(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	b := pooled(t)
	spec := announced("python", backends.Command{Args: []string{"python", "main.py"}})
	for _, c := range exits {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := bare(t, python, c.text)
			if code != c.want {
				t.Fatalf("bare, it exits with %d: %s", code, errs)
			}
			makeReady(t, b, spec)
			got := runProgram(t, b, spec, map[string]string{"main.py": c.text}, "")
			if !got.Warm {
				t.Fatalf("cold: %s", got.Cold)
			}
			if got.ExitCode != code || got.out != out || got.err != errs {
				t.Errorf("got %d %q %q, bare %d %q %q", got.ExitCode, got.out, got.err, code, out, errs)
			}
		})
	}
}

// bare runs a script without a sandbox, and returns its result with a workspace's paths.
func bare(t *testing.T, python, text string) (code int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(python, "main.py")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"} // like a sandbox
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), strings.ReplaceAll(stderr.String(), dir, "/workspace")
}
