package kernel

import (
	"regexp"
	"strings"
	"testing"
)

// TestPythonCells runs cells one after the other in one session.
func TestPythonCells(t *testing.T) {
	cells := []struct {
		name, code string
		text       string // of the value, or the error in one line
		stdout     string
		stderr     string // a substring; "" if it is empty
	}{
		{"empty", "", "", "", ""},
		{"comment", "# nothing\n", "", "", ""},
		{"value", "6 * 7", "42", "", ""},
		{"underscore is the last value", "_ + 1", "43", "", ""},
		{"None is not a value", "None", "", "", ""},
		{"None leaves the last value", "_", "43", "", ""},
		{"statement", "x = [1]", "", "", ""},
		{"state lives on", "x.append(2); x", "[1, 2]", "", ""},
		{"semicolon silences", "x;", "", "", ""},
		{"semicolon and comment", "(x) ;  # not shown", "", "", ""},
		{"semicolon in a string", "'a;'", "'a;'", "", ""},
		{"semicolon in a comment", "x # ;", "[1, 2]", "", ""},
		{"semicolon after letters beyond ASCII", "'äöü𝄞';", "", "", ""},
		{"carriage returns", "x = 1\r\nx + 1\r\n", "2", "", ""},
		{"output before value", "print('out'); 'v'", "'v'", "out\n", ""},
		{"stderr", "import sys; print('err', file=sys.stderr)", "", "", "err\n"},
		{"docstring is a value", "'''text'''", "'text'", "", ""},
		{"definition", "def double(n):\n    return 2 * n", "", "", ""},
		{"call", "double(4)", "8", "", ""},
		{"main", "if __name__ == '__main__':\n    print('main')", "", "main\n", ""},
		{"module main", "import sys; sys.modules['__main__'].double is double and sys.modules['__main__'].__dict__ is globals()", "True", "", ""},
		{"nothing but Python's names to begin with", "sorted(n for n in globals() if not n.startswith('_'))", "['double', 'sys', 'x']", "", ""},
		{"pickle", "import pickle\nclass P:\n    n = 5\npickle.loads(pickle.dumps(P())).n", "5", "", ""},
		{"dataclass", "from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int = 3\npickle.loads(pickle.dumps(D(4)))", "D(a=4)", "",
			""},
		{"getsource", "import inspect; inspect.getsource(double)", `'def double(n):\n    return 2 * n\n'`, "", ""},
		{"getsource of this cell", "def late(): pass\ninspect.getsource(late)", `'def late(): pass\n'`, "", ""},
		{"future of an earlier cell", "from __future__ import annotations", "", "", ""},
		{"is still there", "def f(a: nowhere): pass\nf.__annotations__['a']", "'nowhere'", "", ""},
		{"NUL", "x = 1\x00", "ValueError: source code string cannot contain null bytes|SyntaxError: source code string cannot contain " +
			"null bytes.*", "", ""},

		{"await", "import asyncio\nawait asyncio.sleep(0.001)\n'after'", "'after'", "", ""},
		{"value of an await", "await asyncio.sleep(0, 'slept')", "'slept'", "", ""},
		{"async for", "async def numbers():\n    for i in range(3):\n        yield i\nasync for i in numbers():\n    print(i)", "", "0\n1\n2\n",
			""},
		{"async with", "lock = asyncio.Lock()\nasync with lock:\n    print(lock.locked())", "", "True\n", ""},
		{"async comprehension", "[i async for i in numbers()]", "[0, 1, 2]", "", ""},
		{"a coroutine as value is awaited", "async def g():\n    return 'done'\ng()", "'done'", "", ""},
		{"asyncio.run", "asyncio.run(g())", "'done'", "", ""},
		{"await after asyncio.run", "await g()", "'done'", "", ""},
		{"one loop", "first = asyncio.get_running_loop(); await asyncio.sleep(0)", "", "", ""},
		{"lives on", "await asyncio.sleep(0); first is asyncio.get_running_loop()", "True", "", ""},
		{"a task that waits", "async def tick():\n    await asyncio.sleep(0.001)\n    print('tick')\ntask = asyncio.create_task(tick()); " +
			"await asyncio.sleep(0)", "", "", ""},
		{"does not run without an await", "import time; time.sleep(0.01)", "", "", ""},
		{"runs with the next", "await task", "", "tick\n", ""},
		{"error in an await", "async def bad():\n    raise ValueError('late')\nawait bad()", "ValueError: late", "", ""},
		{"error in a task is told", "async def start():\n    asyncio.create_task(bad())\n    await asyncio.sleep(0.01)\nawait start()\nimport " +
			"gc; gc.collect();", "", "", "ValueError: late"},
		{"SystemExit in an await", "async def leave():\n    sys.exit(4)\nawait leave()", "exit 4", "", ""},
		{"closed loop", "l = asyncio.get_event_loop_policy().get_event_loop(); l.close(); asyncio.set_event_loop(None)", "", "", ""},
		{"a new one", "await g()", "'done'", "", ""},

		{"error", "1/0", "ZeroDivisionError: division by zero", "", ""},
		{"error after output", "print('so far')\n{}['k']", "KeyError: 'k'", "so far\n", ""},
		{"error leaves what was before", "before = 1\nraise RuntimeError('now')\nafter = 2", "RuntimeError: now", "", ""},
		{"which is there", "before, 'after' in globals()", `\(1, False\)`, "", ""},
		{"syntax error", "x = = 1", `SyntaxError: invalid syntax \(line 1\)`, "", ""},
		{"syntax error runs nothing", "print('no')\nreturn 5", `SyntaxError: 'return' outside function \(line 2\)`, "", ""},
		{"sys.exit", "import sys; sys.exit(7)", "exit 7", "", ""},
		{"sys.exit without status", "sys.exit()", "exit 0", "", ""},
		{"sys.exit with text", "sys.exit('sorry')", "exit 1", "", "sorry\n"},
		{"sys.exit beyond a byte", "sys.exit(10**30)", "exit 0", "", ""},
		{"exit", "exit()", "exit 0", "", ""},
		{"quit", "quit(3)", "exit 3", "", ""},
		{"stdin after exit", "sys.stdin.read()", "''", "", ""},
		{"input", "input('name? ')", "EOFError: input.. has nobody to ask.*", "", ""},
		{"stdin", "sys.stdin.readline()", "''", "", ""},
		{"assertion", "assert False, 'no'", "AssertionError: no", "", ""},
		{"error without text", "raise KeyError", "KeyError", "", ""},
		{"str() raises", "class Bad(Exception):\n    def __str__(self): raise OSError\nraise Bad", "Bad: <str.. of it raised OSError>", "", ""},
		{"raise BaseException", "raise BaseException('base')", "BaseException: base", "", ""},
		{"raise KeyboardInterrupt", "raise KeyboardInterrupt", "KeyboardInterrupt", "", ""},
		{"raise GeneratorExit", "raise GeneratorExit", "GeneratorExit", "", ""},
		{"recursion", "def deep(n): return deep(n + 1)\ndeep(0)", "RecursionError: maximum recursion depth exceeded.*", "", ""},
		{"low recursion limit", "sys.setrecursionlimit(60); 'low'", "'low'", "", ""},
		{"is survived", "sys.setrecursionlimit(1000); len(repr([1]))", "3", "", ""},
		{"no memory", "bytearray(1 << 60)", "MemoryError", "", ""},
		{"warning", "import warnings; warnings.warn('careful')", "", "", "UserWarning: careful"},
		{"repr raises", "class R:\n    def __repr__(self): raise ValueError('shy')\nR()", "<R, whose repr.. raised ValueError: shy>", "", ""},
		{"repr exits", "class R:\n    def __repr__(self): sys.exit(5)\nR()", "exit 5", "", ""},
		{"repr is not text", "class R:\n    def __repr__(self): return 5\nR()",
			"<R, whose repr.. raised TypeError: __repr__ returned non-string .type int.>", "", ""},
		{"answers to every name", "class A:\n    def __getattr__(self, name): return lambda *a, **k: name\n    def __repr__(self): " +
			"return 'A'\nA()", "A", "", ""},
		{"getattr raises", "class A:\n    def __getattribute__(self, name): raise SystemError(name)\n    def __repr__(self): return 'A'\nA()",
			"A", "", ""},
		{"lone surrogate", "'\\ud800', chr(0xdc80)", `\('\\ud800', '\\udc80'\)`, "", ""},

		{"redefined builtins", "import builtins, json, os\nkept = {n: getattr(builtins, n) for n in ('len', 'repr', 'print', 'isinstance', " +
			"'type', 'str', 'getattr', 'BaseException', 'compile', 'eval', 'dict', 'min')}\nfor n in kept: setattr(builtins, n, None)", "", "", ""},
		{"are the program's problem only", "5 + 5", "10", "", ""},
		{"even for errors", "1/0", "ZeroDivisionError: division by zero", "", ""},
		{"and back", "for n in kept: setattr(builtins, n, kept[n])", "", "", ""},
		{"shadowed names", "print = len = repr = json = os = type = BaseException = 5; print", "5", "", ""},
		{"and on", "del print, len, repr, json, os, type, BaseException; [1]", `\[1\]`, "", ""},
		{"deleted builtins", "del __builtins__", "", "", ""},
		{"come back", "len('abc')", "3", "", ""},
		{"main removed", "import sys; del sys.modules['__main__']", "", "", ""},
		{"comes back", "sys.modules['__main__'].__dict__ is globals()", "True", "", ""},
		{"modules of ours replaced", "import os\nimport posix\nkept = {n: getattr(posix, n) for n in ('read', 'write', 'dup2', 'getpid', " +
			"'close')}\nfor n in kept: setattr(os, n, None), setattr(posix, n, None)", "", "", ""},
		{"and ours again", "for n in kept: setattr(os, n, kept[n]), setattr(posix, n, kept[n])", "", "", ""},

		{"stdout replaced", "import io; old = sys.stdout; sys.stdout = io.StringIO(); print('into')", "", "", ""},
		{"stays replaced", "print('more'); got = sys.stdout.getvalue(); sys.stdout = old; got", `'into\\nmore\\n'`, "", ""},
		{"stdout closed", "sys.stdout.close()", "", "", ""},
		{"is opened again", "print('again')", "", "again\n", ""},
		{"stdout deleted", "del sys.stdout", "", "", ""},
		{"is there again", "print('and again')", "", "and again\n", ""},
		{"descriptors closed", "import os\nfor fd in range(10): \n    try: os.close(fd)\n    except OSError: pass", "", "", ""},
		{"are opened again", "print('still'); os.system('echo child; echo problem >&2'); sys.stdin.read()", "''", "still\nchild\n", "problem\n"},
		{"a file as descriptor 3", "fd = os.open('/dev/null', os.O_RDONLY); fd", "3", "", ""},
		{"descriptor 1 elsewhere", "keep = os.dup(1); null = os.open('/dev/null', os.O_WRONLY); os.dup2(null, 1); print('gone'); " +
			"os.system('echo gone')", "0", "", ""},
		{"and back here", "os.dup2(keep, 1); print('here')", "", "here\n", ""},
		{"not blocking", "os.set_blocking(1, False)", "", "", ""},
		{"blocks again", "os.get_blocking(1)", "True", "", ""},
		{"child's output", "import subprocess; subprocess.run(['echo', 'ran']).returncode", "0", "ran\n", ""},
		{"no channel for children", "subprocess.run(['sh', '-c', 'ls -l /proc/self/fd | grep -c socket:'], capture_output=True, text=True, " +
			"close_fds=False).stdout", `'0\\n'`, "", ""},
		{"no marks for children", "subprocess.run(['sh', '-c', 'for f in /proc/$$/fd/*; do readlink $f; done | grep -cF \"$(readlink " +
			"/proc/$$/fd/2)\"'], stdout=subprocess.PIPE, text=True, close_fds=False).stdout", `'1\\n'`, "", ""},

		{"fork", "pid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0)\n    print('parent')\n'value'", "'value'",
			"child\nparent\n", ""},
		{"fork with an error", "pid = os.fork()\nif pid == 0:\n    raise ValueError('of the " +
			"child')\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "1", "", "ValueError: of the child"},
		{"fork and exit", "pid = os.fork()\nif pid == 0:\n    sys.exit(6)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "6", "", ""},
		{"fork that shows", "pid = os.fork()\nif pid == 0:\n    display(1)\nelse:\n    os.waitpid(pid, 0);", "", "1\n", ""},
		{"multiprocessing", "import multiprocessing\ndef square(n): return n * n\nwith multiprocessing.get_context('fork').Pool(2) as pool: " +
			"print(pool.map(square, range(4)))", "", "[0, 1, 4, 9]\n", ""},
		{"threads", "import threading\nts = [threading.Thread(target=print, args=('thread',)) for i in range(3)]\nfor t in ts: t.start()\nfor " +
			"t in ts: t.join()", "", "thread\nthread\nthread\n", ""},
		{"error in a thread", "t = threading.Thread(target=lambda: 1/0); t.start(); t.join()", "", "", "ZeroDivisionError: division by zero"},
		{"settrace", "seen = []\ndef tracer(frame, event, arg): seen.append(frame.f_code.co_filename)\nsys.settrace(tracer)", "", "", ""},
		{"is kept, and sees no driver", "def traced(): pass\ntraced(); len(seen) > 0, '<driver>' in seen, sys.gettrace() is tracer",
			`\(True, False, True\)`, "", ""},
		{"off", "sys.settrace(None); seen.clear()", "", "", ""},
		{"stays off", "sys.gettrace()", "", "", ""},
		{"own handler", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);", "", "", ""},
		{"environment", "os.environ['MPLBACKEND']", "'Agg'", "", ""},
		{"binary output", "_ = sys.stdout.buffer.write(bytes(range(256)))", "", string(bytesUpTo(256)), ""},
		{"cycle", "loop = []; loop.append(loop); loop", `\[\[...\]\]`, "", ""},
		{"int too long for text", "10 ** 5000", "<int, whose repr.. raised ValueError: Exceeds the limit .*", "", ""},
	}
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s := start(t)
		for _, c := range cells {
			t.Run(c.name, func(t *testing.T) {
				s.t = t
				r := s.run(c.code)
				text := r.text()
				if r.Exit != nil {
					text = "exit " + string(rune('0'+*r.Exit))
				}
				if text != c.text && !regexp.MustCompile(`(?s)^(`+c.text+`)$`).MatchString(text) {
					t.Errorf("value %.600q, want %q", text, c.text)
				}
				if r.Stdout != c.stdout {
					t.Errorf("stdout %.600q, want %q", r.Stdout, c.stdout)
				}
				if r.Stderr != c.stderr && (c.stderr == "" || !strings.Contains(r.Stderr, c.stderr)) {
					t.Errorf("stderr %.600q, want %q in it", r.Stderr, c.stderr)
				}
				if strings.Contains(r.Stderr, "<driver>") {
					t.Errorf("the driver shows: %s", r.Stderr)
				}
				if r.Lost {
					death, err := s.Death()
					t.Fatalf("dead: %+v %v", death, err)
				}
			})
		}
	})
}

func bytesUpTo(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
