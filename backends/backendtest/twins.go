//go:build linux

package backendtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// twin is a program that must have the same output in an idle and in a new interpreter.
type twin struct {
	name      string // of the case
	program   string // in directory programs, or
	source    string // its text
	args, env []string
	files     map[string]string // next to it
	stdin     string
	cold      string // why it is never warm
}

func twins() []twin {
	env := []string{"SECRET=a b=c", "B=", "A=1", "EMPTY=", "USER=somebody", "UNICODE=ü☃"}
	return []twin{
		{name: "python", program: "twin.py"},
		{name: "python given much", program: "twin.py", args: []string{"", "a b", "ü", "-x", "\xff", "new\nline"}, env: env, stdin: "input",
			files: map[string]string{"data/in.txt": "x", "helper.py": "x = 1"}},
		{name: "python with a large environment", program: "twin.py", env: []string{"LARGE=" + strings.Repeat("x", 20_000)}},
		{name: "python with a larger one", program: "twin.py", env: []string{"LARGE=" + strings.Repeat("x", 100_000)},
			cold: "arguments and environment are too large"},
		{name: "python exits", program: "main.py", source: "import sys, atexit\natexit.register(print, 'bye')\nprint('x', end='')\nsys.exit(7)"},
		{name: "python exits with words", program: "main.py", source: "raise SystemExit('words')"},
		{name: "python, a syntax error", program: "main.py", source: "print(1)\nif\n"},
		{name: "python, no UTF-8", program: "main.py", source: "print('\xff')"},
		{name: "python, a signal", program: "main.py", source: "import os\nprint(1)\nos.kill(os.getpid(), 15)"},
		{name: "python, interrupted", program: "main.py", source: "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"},
		{name: "python, nothing", program: "main.py", source: ""},
		{name: "python, an archive", program: "main.py", source: "PK\x05\x06" + strings.Repeat("\x00", 18)},
		{name: "python imports", program: "main.py", source: "import helper, json, sys; print(helper.x, sys.path_importer_cache.keys())",
			files: map[string]string{"helper.py": "x = 1"}},
		{name: "python hides modules", program: "main.py", source: "import sys, random; print(random, [m for m in sys.modules if 'custom' in m])",
			files: map[string]string{
				"sitecustomize.py": "print('mine')", "usercustomize.py": "print('mine, too')", "random.py": "x = 1", "posix.py": "x = 1"}},
		{name: "python, packages of the user", program: "main.py", source: "import sys; print(sys.path)", files: map[string]string{
			".local/lib/python3.11/site-packages/usercustomize.py": "print('user')"}, cold: "there are packages in .local"},
		{name: "python, a variable for it", program: "main.py", source: "import sys; print(sys.flags)", env: []string{"PYTHONOPTIMIZE=1"},
			cold: "PYTHONOPTIMIZE is set"},
		{name: "python, a time zone", program: "main.py", source: "import time; print(time.tzname)", env: []string{"TZ=Asia/Tokyo"},
			cold: "TZ is set"},
		{name: "python, what is told of its end", program: "main.py", source: "class A:\n def __del__(self): print('del', flush=True)\na = A()"},
		{name: "python, what the collector does not know", program: "main.py",
			source: "class A:\n __slots__ = ()\n def __del__(self): print('del')\na = A()"},
		{name: "python, a class is told of its end", program: "main.py",
			source: "class M(type):\n def __del__(self): print('del')\nclass A(metaclass=M): pass\na = A()"},
		{name: "python, what was kept from the collector", program: "main.py",
			source: "import gc\nclass A:\n def __del__(self): print('del')\na = A()\ngc.freeze()"},
		{name: "python, what is old", program: "main.py", source: "import gc\nclass A:\n def __del__(self): print('del')\na = A()\ngc.collect()"},
		{name: "python, much that is old", program: "main.py", source: "class A:\n def __del__(self): print('del')\na = A()\nb = [[] for _ in " +
			"range(20000)]"},
		{name: "python, a reference that calls", program: "main.py", source: "import weakref\nclass A: pass\na = A()\nr = weakref.ref(a, " +
			"print and (lambda r: open('/dev/stdout', 'w').write('gone')))\np = weakref.proxy(a, len)"},
		{name: "python, a finaliser", program: "main.py", source: "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, " +
			"'finalised')"},
		{name: "python, a file that is not closed", program: "main.py", source: "f = open('/dev/stdout', 'w')\nf.write('late')"},
		{name: "python, a generator that waits", program: "main.py",
			source: "def g():\n try: yield\n finally: print('finally')\ng = g()\nnext(g)"},
		{name: "python, a coroutine that nobody awaited", program: "main.py", source: "async def f(): pass\nx = f()"},
		{name: "python, threads", program: "main.py", source: "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), " +
			"print('late'))).start()\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()"},
		{name: "python exits with nothing", program: "main.py", source: "import sys\nsys.exit()"},
		{name: "python, a hook for errors", program: "main.py", source: "import sys\nsys.excepthook = lambda *a: print(a[0])\n1 / 0"},
		{name: "python, no standard output", program: "main.py", source: "import sys\nprint(1)\nsys.stdout.close()"},
		{name: "python, standard output is lost", program: "main.py",
			source: "import os\nos.close(1)\nos.open('/dev/full', os.O_WRONLY)\nimport " +
				"sys\nsys.stdout.reconfigure(write_through=False)\nsys.stdout.write('x')"},
		{name: "python, another standard output", program: "main.py", source: "import sys\nout = sys.stdout\nclass Out:\n write = out.write\n " +
			"def flush(): out.write('flushed')\nsys.stdout = Out\nprint(1)"},
		{name: "python, another flush", program: "main.py", source: "import sys\nw = sys.stdout.write\nsys.stdout.flush = lambda: " +
			"w('flushed')\nprint(1)"},
		{name: "python, a hook for what can't be raised", program: "main.py",
			source: "import sys\nsys.unraisablehook = lambda u: open('/dev/stdout', 'w').write(repr(u.exc_value))\nclass A:\n def __del__(self): " +
				"1 / 0\na = A()"},
		{name: "python, warnings", program: "main.py", source: "import _socket, warnings\nwarnings.simplefilter('always')\ns = " +
			"_socket.socket(_socket.AF_UNIX)"},
		{name: "python, the collector tells", program: "main.py",
			source: "import gc\ngc.callbacks.append(lambda phase, info, write=__import__('os').write: write(1, phase.encode()))"},
		{name: "python, the collector's statistics", program: "main.py",
			source: "import gc\ngc.disable()\ngc.set_debug(gc.DEBUG_UNCOLLECTABLE | gc.DEBUG_SAVEALL)\na = []\na.append(a)\ndel a"},
		{name: "python, what is to be called at the end", program: "main.py",
			source: "import atexit\natexit.register(print, 'bye')\natexit.register(int, 'x')"},
		{name: "python, small things", program: "main.py",
			source: "import json, re, collections, dataclasses, abc\n@dataclasses.dataclass\nclass A:\n x: int = 1\nclass B(abc.ABC): " +
				"pass\nclass C(B): pass\ng = (i for i in range(3))\nprint(list(g), A(), f'{json.dumps({1: 2})}', C() is None)"},
		{name: "node", program: "twin.js"},
		{name: "node given much", program: "twin.js", stdin: "input", files: map[string]string{"data/in.txt": "x", "helper.js": "exports.x = 1"}},
		{name: "node with variables", program: "twin.js", env: env, cold: "node reads its variables when it starts"},
		{name: "node with the variables of all", program: "twin.js", env: []string{"GIT_AUTHOR_NAME=Ada Lovelace", "PIP_RETRIES=0"}},
		{name: "node with a package.json", program: "twin.js", files: map[string]string{"package.json": `{"name": "mine", "type": "commonjs"}`}},
		{name: "node, a module by package.json", program: "main.js", source: "import fs from 'fs'; console.log(import.meta.url, typeof " +
			"require); throw new Error('x')",
			files: map[string]string{"package.json": `{"type": "module"}`}},
		{name: "node, a bad package.json", program: "main.js", source: "console.log(1)", files: map[string]string{"package.json": "{"}},
		{name: "node, an empty package.json", program: "main.js", source: "console.log(1)", files: map[string]string{"package.json": ""}},
		{name: "node, packages", program: "main.js", source: "console.log(require('thing'), require('./helper'), Object.keys(require.cache))",
			files: map[string]string{
				"node_modules/thing/package.json": `{"main": "it.js"}`, "node_modules/thing/it.js": "module.exports = __filename",
				"helper.js": "exports.x = 1"}},
		{name: "node with arguments", program: "main.js", source: "console.log(process.argv)", args: []string{"x"},
			cold: "node reads its arguments when it starts"},
		{name: "node, a module", program: "main.mjs", source: "console.log(import.meta.url, process.argv)",
			cold: "the program's name does not end in .js"},
		{name: "node, a variable for it", program: "main.js", source: "console.log(process.execArgv)",
			env: []string{"NODE_OPTIONS=--no-warnings"}, cold: "NODE_OPTIONS is set"},
		{name: "node exits", program: "main.js", source: "console.log(1); process.exitCode = 7"},
		{name: "node, a syntax error", program: "main.js", source: "let 1"},
		{name: "node, an error", program: "main.js", source: "process.stdout.write('x'); throw new TypeError('ü')"},
		{name: "node, a rejection", program: "main.js", source: "Promise.reject(new Error('x'))"},
		{name: "node, a signal", program: "main.js", source: "process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 1e6)"},
		{name: "node, nothing", program: "main.js"},
		{name: "node reads its input", program: "main.js", source: "process.stdin.on('data', (d) => console.log('got', String(d))).on('end', " +
			"() => console.log('end'))", stdin: "input"},
		{name: "shell", program: "twin.sh", stdin: "input"},
		{name: "shell with variables", program: "twin.sh", env: []string{"SECRET=a b=c", "B=", "QUOTES='x'; \"$(exit)\" \\' `exit`", "UNICODE=ü☃",
			"PIP_RETRIES=0", "DOLLAR=$HOME ~ * ! {a,b}"}},
		{name: "shell with a variable that is not text", program: "twin.sh", env: []string{"RAW=\xff\x01\x7f\n'"}},
		{name: "shell with variables of its own", program: "twin.sh", env: []string{"IFS=x", "BASH_ENV=/workspace/mine", "PS4=x", "SECONDS=9",
			"RANDOM=7", "OPTIND=3", "UID=0", "_=x"},
			files: map[string]string{"mine": "echo mine"}},
		{name: "shell in strict mode", program: "main.sh", source: "set -euo pipefail; echo ${x:-unset} $SECONDS; trap 'echo bye $?' EXIT; " +
			"false | true"},
		{name: "shell, a syntax error", program: "main.sh", source: "echo 1\nif\n"},
		{name: "shell, nothing", program: "main.sh"},
		{name: "shell, no text", program: "main.sh", source: "\x7fELF\x00\x00"},
		{name: "shell, a signal", program: "main.sh", source: "echo 1; kill -TERM $$"},
		{name: "shell, a first line", program: "main.sh", source: "#!/bin/sh -e\necho $0 $BASH ${BASH_SOURCE[@]}; false; echo on"},
		{name: "shell with arguments", program: "main.sh", source: "env; echo $0 $* $$ $PPID $-; ls -la /proc/self/fd | wc -l; ls -a; ls -a " +
			"/tmp; tr '\\0' ' ' </proc/$$/cmdline; cat; exit 3", args: []string{"a b", ""}, env: env, stdin: "input"},
	}
}

// testTwins runs programs in an idle and in a new sandbox, and compares all their output. They may differ in start
// time and resource usage, in random addresses and in inode numbers.
func testTwins(t *testing.T, b *bench) {
	if !b.o.Warm {
		t.Skip("nothing stands ready here")
	}
	for _, w := range twins() {
		t.Run(w.name, func(t *testing.T) {
			warm, cold := w.runOnce(t, b, true), w.runOnce(t, b, false)
			if d := cmp.Diff(strings.Split(cold.Stdout, "\n"), strings.Split(warm.Stdout, "\n")); d != "" {
				t.Errorf("standard output, -cold +warm:\n%s", d)
			}
			if d := cmp.Diff(cold.Stderr, warm.Stderr); d != "" {
				t.Errorf("standard error, -cold +warm:\n%s", d)
			}
			if cold.Ended != warm.Ended || cold.ExitCode != warm.ExitCode || cold.Signal != warm.Signal {
				t.Errorf("cold it ended %s %d %s, warm %s %d %s", cold.Ended, cold.ExitCode, cold.Signal, warm.Ended, warm.ExitCode, warm.Signal)
			}
			if d := cmp.Diff(cold.Contained.InForce(), warm.Contained.InForce()); d != "" || warm.Contained.Layers == nil {
				t.Errorf("layers, -cold +warm:\n%s", d)
			}
			if warm.Warm != (w.cold == "") || warm.Cold != w.cold || cold.Warm {
				t.Errorf("stood ready: %v, or not because %q; want %q", warm.Warm, warm.Cold, w.cold)
			}
		})
	}
}

// runOnce runs the program once.
func (w twin) runOnce(t *testing.T, b *bench, warm bool) outcome {
	t.Helper()
	cmd := backends.Command{Args: slices.Concat([]string{runtimeOf(w.program), w.program}, w.args), Env: w.env}
	language := map[string]string{"python": "python", "node": "node", "bash": "shell"}[cmd.Args[0]]
	if strings.HasSuffix(w.program, ".mjs") {
		language, cmd.Args[0] = "node", "node"
	}
	var s backends.Sandbox
	if warm {
		s = b.startAnnounced(t, b.spec(language), cmd)
	} else {
		s = b.openSandbox(t, b.spec(language))
	}
	if strings.HasPrefix(w.program, "twin.") {
		putPrograms(t, s, w.program)
	} else {
		putText(t, s, w.program, w.source)
	}
	for name, text := range w.files {
		putText(t, s, name, text)
	}
	var out, errs lockedBuffer
	streams := backends.Streams{Stdout: &out, Stderr: &errs}
	if w.stdin != "" {
		streams.Stdin = strings.NewReader(w.stdin)
	}
	r, err := s.Exec(t.Context(), cmd, streams)
	if err != nil {
		t.Fatal(err)
	}
	return outcome{r, out.String(), errs.String()}
}
