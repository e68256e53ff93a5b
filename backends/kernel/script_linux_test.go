package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// ran is the result of a program, with its displayed values.
type ran struct {
	out, err string
	code     int
	left     string // names of the files in its directory
	value    Bundle
	displays []Bundle
}

// runProgram runs a program in an interpreter and a directory of its own, with the driver if driven.
func runProgram(t *testing.T, interpreter, code string, driven bool) (r ran) {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("main.py", code)
	if driven {
		put(".kept", code)
		put("main.py", string(ScriptDriver(".kept")))
	}
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), interpreter, "main.py", "one", "-x")
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, strings.NewReader("first\nsecond\n"), &out, &errs
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "PYTHONHASHSEED=0"}
	var ended *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	r.code = c.ProcessState.ExitCode()
	if f, err := os.Open(filepath.Join(dir, ".kept")); err == nil {
		r.value = ReadDisplays(f, 1<<20, func(b Bundle) { r.displays = append(r.displays, b) })
		f.Close()
		os.Remove(f.Name())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		r.left += e.Name() + " "
	}
	r.out, r.err = strings.ReplaceAll(out.String(), dir, "DIR"), strings.ReplaceAll(errs.String(), dir, "DIR")
	return r
}

// pythons returns this host's interpreters from 3.8 on by name: the first, the last, and in a long test all.
func pythons(t *testing.T) map[string]string {
	found := map[string]string{"python3": python(t)}
	var names []string
	for minor := 8; minor < 20; minor++ {
		if name := fmt.Sprintf("python3.%d", minor); pythonVersion(name) != "" {
			names = append(names, name)
		}
	}
	if hosttest.Rounds(0, 1) == 0 && len(names) > 2 {
		names = []string{names[0], names[len(names)-1]}
	}
	for _, name := range names {
		found[name] = pythonVersion(name)
	}
	return found
}

// TestScriptIsTheProgram compares programs with and without the driver: their view of themselves, their output, and
// how they end.
func TestScriptIsTheProgram(t *testing.T) {
	programs := map[string]string{
		"names": "import sys, os\nprint(sys.argv, __name__, __file__, sorted(globals()), sys.path[0], sorted(os.environ), " +
			"os.listdir('.'), sys.flags)",
		"itself": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), open(__file__).read(), " +
			"f.__code__.co_filename, f.__module__)",
		"docstring":        "'''said'''\nprint(__doc__)",
		"future":           "from __future__ import annotations\nx: Undefined = 1\nprint(__annotations__)",
		"if main":          "def main():\n    print('main')\nif __name__ == '__main__':\n    main()",
		"stdin":            "import sys\nprint(input('? '))\nprint(sys.stdin.read())",
		"exit code":        "import sys\nsys.exit(7)",
		"exit text":        "import sys\nsys.exit('no')",
		"exit nothing":     "exit()",
		"hard exit":        "import os\nprint('lost?', flush=True)\nos._exit(9)",
		"exception":        "import json\ndef f(x):\n    return 1 / x\ntry:\n    f(0)\nexcept ZeroDivisionError:\n    json.loads('{')",
		"cause":            "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('no') from e",
		"in the last line": "x = [1]\nx[2].y",
		"syntax":           "print('never')\nx = = 1\n",
		"late syntax":      "print('never')\nreturn 5",
		"indent":           "if True:\nx = 1",
		"interrupt":        "raise KeyboardInterrupt",
		"signal":           "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
		"atexit":           "import atexit\natexit.register(print, 'at exit')\nprint('end')\n1/0",
		"hook":             "import sys\nsys.excepthook = lambda *a: print('hook', a[0], a[2].tb_lineno)\n1/0",
		"thread":           "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')",
		"thread fails":     "import threading\nt = threading.Thread(target=lambda: 1/0, name='T')\nt.start()\nt.join()",
		"fork":             "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint(pid == 0)\npid == 0",
		"spawn": "import multiprocessing as m\ndef f(x): return x * 2\nif __name__ == '__main__':\n    " +
			"m.set_start_method('spawn')\n    with m.Pool(1) as p:\n        print(p.map(f, [1, 2]))",
		"forked pool": "import multiprocessing as m\ndef f(x): return x * 2\nwith m.get_context('fork').Pool(1) as p:\n    " +
			"print(p.map(f, [1, 2]))",
		"pickle":        "import pickle\nclass P: pass\nprint(type(pickle.loads(pickle.dumps(P()))) is P, P.__module__)",
		"warning":       "import warnings\nwarnings.warn('beware')\nx = 'a' is 'a'",
		"latin-1":       "# coding: latin-1\nprint(ascii('\xe4'), 'x');",
		"BOM":           "\ufeffprint('after it')",
		"line ends":     "print('''a\r\nb''')\r\n1/0\r\n",
		"no names left": "import sys\ndel sys.modules['__main__'].__file__\nprint(len(sys.modules['__main__'].__dict__))",
		"other builtins": "import builtins, posix\nbuiltins.compile = builtins.eval = builtins.repr = posix.open = posix.rename = " +
			"None\nprint('fine')\n5",
		"closed streams": "import sys, os\nsys.stdout.close()\nos.closerange(3, 100)\n5",
		"nothing":        "# nothing",
	}
	for name, interpreter := range pythons(t) {
		t.Run(name, func(t *testing.T) {
			for _, which := range slices.Sorted(maps.Keys(programs)) {
				t.Run(which, func(t *testing.T) {
					t.Parallel()
					want, got := runProgram(t, interpreter, programs[which], false), runProgram(t, interpreter, programs[which], true)
					if got.out != want.out || got.err != want.err || got.code != want.code || got.left != want.left {
						t.Errorf("got\n%+v\nwant\n%+v", got, want)
					}
				})
			}
		})
	}
}

// TestScriptShows checks displayed values of scripts.
func TestScriptShows(t *testing.T) {
	for name, interpreter := range pythons(t) {
		t.Run(name, func(t *testing.T) {
			for _, test := range []struct {
				name, code      string
				value, out, err string
				displays        int
			}{
				{"value", "x = 5\nx", "5", "", "", 0},
				{"none", "print(5)", "", "5\n", "", 0},
				{"silenced", "5;", "", "", "", 0},
				{"string", "1\n'said'", "'said'", "", "", 0},
				{"several lines", "len(\n  [1,\n   2])\n# so\n", "2", "", "", 0},
				{"unicode", "'ä\U0001F600'", "'ä\U0001F600'", "", "", 0},
				{"display", "display(1, 'a')\ndisplay({'text/html': '<b>'}, raw=True)\n2", "2", "", "", 3},
				{"rich", "class T:\n    def _repr_html_(self): return '<i>'\nT()", "<__main__.T object", "", "", 0},
				{"bad repr", "class T:\n    def __repr__(self): 1/0\nT()", "<T, whose repr() raised ZeroDivisionError", "", "", 0},
				{"a repr that exits", "class T:\n    def __repr__(self): raise SystemExit(3)\nT()", "", "",
					"what the program leaves to be shown can not be: SystemExit: 3\n", 0},
				{"the error after", "5\ndisplay(1)\nraise SystemExit", "", "", "", 1},
				{"children do not", "import os\nif os.fork() == 0:\n    display(1)\n    print(end='', flush=True)\n    os._exit(0)\nos.wait()[1]", "0",
					"1\n", "", 0},
				{"directory left", "import os\nos.mkdir('d')\nos.chdir('d')\n5", "5", "", "", 0},
				{"large", "'x' * (1 << 19)", "'xxx", "", "", 0},
			} {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					r := runProgram(t, interpreter, test.code, true)
					text := r.value["text/plain"]
					if !strings.HasPrefix(text, test.value) || test.value == "" && r.value != nil || r.out != test.out || r.err != test.err ||
						len(r.displays) != test.displays || r.code != 0 {
						t.Errorf("got %+v", r)
					}
				})
			}
		})
	}
}

// TestNotebookLines runs notebook-only syntax of Python, as a script and in a session.
func TestNotebookLines(t *testing.T) {
	tests := []struct{ name, code, value, out, err string }{
		{"command", "!echo out; echo more\nprint('then')", "", "out\nmore\nthen\n", ""},
		{"its lines", "lines = !printf 'a\\nb'\nlines", "['a', 'b']", "", ""},
		{"its value", "x = 1\nif x:\n    !echo {x + 1} $x $HOME '$x' {a,b} ${x} | cat", "", "2 1 /nonexistent 1 a b\n", ""},
		{"awk", "!echo a b | awk '{print $2}'", "", "b\n", ""},
		{"continued", "!echo a \\\n  b\n1/1", "1.0", "a b\n", ""},
		{"quotes", "!echo \"it's\" '\"'\nx = 'a'\nx", "'a'", "it's \"\n", ""},
		{"failing", "!exit 3\n_exit_code", "3", "", ""},
		{"strings", "a = '''\n!ls\n%pip install x\n'''\nb = [\n'%d'\n% 3]\n%matplotlib inline\na + b[0]", `'\n!ls\n%pip install x\n3'`, "", ""},
		{"valid as it is", "x = 5\\\n% 3\ny = '''\n!ls\n'''\nx, y", `(2, '\n!ls\n')`, "", ""},
		{"pip", "%pip install -q numpy 'x>=2'\n!pip3 install y\n5", "5", "",
			"\"pip install -q numpy 'x>=2'\" was not run: nothing can be installed from in here. Call install_package with packages [\"numpy\", \"x>=2\"]; what is there already can be imported.\n" +
				"\"pip3 install y\" was not run: nothing can be installed from in here. Call install_package with packages [\"y\"]; what is there already can be imported.\n"},
		{"idle", "%load_ext autoreload\n%autoreload 2\n%config x\n5", "5", "", ""},
		{"a cell of bash", "%%bash\nfor i in 1 2; do\n  echo \"$i\"\ndone", "", "1\n2\n", ""},
		{"a file", "%%writefile a.txt\na\n  'b", "", "Writing a.txt\n", ""},
		{"time", "%time x = 5\nx", "5", "", ""},
		{"a cell's time", "%%time\nx = 5\nx", "5", "", ""},
		{"directories", "%cd /\nx = %pwd\nx", "'/'", "/\n", ""},
		{"environment", "%env A=b\n!echo $A", "", "env: A=b\nb\n", ""},
	}
	check := func(t *testing.T, value, out, errs, wantValue, wantOut, wantErr string) {
		t.Helper()
		if value != wantValue || out != wantOut || errs != wantErr {
			t.Errorf("got %q %q %q", value, out, errs)
		}
	}
	for name, interpreter := range pythons(t) {
		t.Run(name, func(t *testing.T) {
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					r := runProgram(t, interpreter, test.code, true)
					check(t, r.value["text/plain"], r.out, r.err, test.value, test.out, test.err)
				})
			}
		})
	}
	t.Run("session", func(t *testing.T) {
		s := startSession(t, newBare(t, map[string]string{"python": python(t)}), "python")
		s.run("import os; os.environ['HOME'] = '/nonexistent'")
		for _, test := range tests {
			r := s.run(test.code)
			check(t, r.text(), r.Stdout, r.Stderr, test.value, test.out, test.err)
		}
		if r := s.run("x = 1\n!echo a\n%nosuch b\n1/0"); r.Error == nil || r.Error.Type != "NotImplementedError" ||
			!strings.Contains(r.Error.Traceback, `, line 3, in`) {
			t.Errorf("got %+v", r.Error)
		}
		if r := s.run("!echo a\nx = = 1"); r.Error == nil || r.Error.Type != "SyntaxError" || !strings.Contains(r.Error.Message, "line 2") ||
			r.Stdout != "" {
			t.Errorf("got %+v", r.Error)
		}
	})
}

// TestScriptFigures checks that open figures are displayed at the end, and those displayed before only once.
func TestScriptFigures(t *testing.T) {
	interpreter := python(t, "matplotlib", "PIL")
	for _, test := range []struct {
		name, code string
		displays   int
	}{
		{"shown", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()", 1},
		{"left open", "import matplotlib.pyplot as plt\nplt.plot([1]);\nplt.figure();", 2},
		{"before an exit", "import matplotlib.pyplot as plt\nplt.plot([1])\nexit()", 1},
		{"by a library", "__import__('matplotlib.pyplot').pyplot.plot([1]);", 1},
		{"by its method", "from PIL import Image\nImage.new('RGB', (5, 5)).show()", 1},
		{"none", "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.savefig('a.png')\nplt.close()", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := runProgram(t, interpreter, test.code, true)
			if len(r.displays) != test.displays || r.err != "" || r.code != 0 {
				t.Fatalf("got %+v", r)
			}
			for _, b := range r.displays {
				if imageWidth(t, b) == 0 {
					t.Errorf("no image: %v", mimeTypes(b))
				}
			}
		})
	}
	if r := runProgram(t, interpreter, "from PIL import Image\nImage.new('RGB', (5, 5))", true); imageWidth(t, r.value) != 5 {
		t.Errorf("got %v", mimeTypes(r.value))
	}
}
