package enginecheck_test

import (
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// request is a run with the same result in all backends.
type request struct {
	name, language, code string
	change               func(*bench, *run.Request)
	ended                string // "" means "ok"
	stdout               string // text that the output must contain, so that a common failure is noticed
	long                 bool   // little depends on the engine: only runs with SANDBOXMCP_TEST_LONG
}

// secret is written in pieces, so that no source file contains it.
var secret = "k3y-" + strings.Repeat("Zq7/", 4) + "end"

func tightLimits(l backends.Limits) func(*bench, *run.Request) {
	return func(_ *bench, q *run.Request) { q.Limits = l }
}

// testRequests returns the requests that TestSameResults runs.
func testRequests() []request {
	withMounts := func(b *bench, q *run.Request) {
		q.Mounts = []backends.Mount{{Host: b.host + "/data", Inside: "/data"}, {Host: b.host + "/data/one.txt", Inside: "/srv/one"},
			{Host: b.host + "/work", Inside: "/write", Write: true}}
	}
	withSecret := func(b *bench, q *run.Request) {
		b.memory.Set("default", "KEY", []byte(secret))
		q.Secrets = []string{"KEY"}
	}
	typed := func(_ *bench, q *run.Request) { q.Allow, q.Typed = []string{openName + ":18471"}, true }
	return []request{
		{name: "ok", language: "python", code: "print('hello')", stdout: "hello\n"},
		{name: "ok in node", long: true, language: "node", code: "console.log('hello')", stdout: "hello\n"},
		{name: "typescript", long: true, language: "typescript", code: "const x: number = 41; console.log(x + 1)", stdout: "42\n"},
		{name: "ok in shell", language: "shell", code: "echo hello; echo there >&2", stdout: "hello\n"},
		{name: "exit code", language: "python", code: "import sys; sys.exit(7)", ended: "exit"},
		{name: "exit code above 255", long: true, language: "node", code: "process.exit(300)", ended: "exit"},
		{name: "exit code of a signal's size", long: true, language: "shell", code: "exit 137", ended: "exit"},
		{name: "exception", language: "python", code: "def f(): raise ValueError('bad')\nf()", ended: "exit"},
		{name: "exception in node", long: true, language: "node", code: "function f () { throw new Error('bad') }\nf()", ended: "exit"},
		{name: "error in shell", long: true, language: "shell", code: "set -eu; echo $nothing", ended: "exit"},
		{name: "no such command", long: true, language: "shell", code: "nosuchcommand", ended: "exit"},
		{name: "segfault", long: true, language: "python", code: "import os; os.kill(os.getpid(), 11)", ended: "signal"},
		{name: "SIGTERM", long: true, language: "node", code: "process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 9e4)", ended: "signal"},
		{name: "SIGKILL", language: "shell", code: "kill -9 $$", ended: "signal"},
		{name: "real-time signal", long: true, language: "python", code: "import os; os.kill(os.getpid(), 40)", ended: "signal"},
		{name: "abort", long: true, language: "node", code: "process.abort()", ended: "signal"},
		{name: "timeout with grandchildren", language: "shell", code: "sleep 100 & (setsid sleep 100 & sleep 100) & trap '' TERM; echo begun; " +
			"wait; sleep 100", change: tightLimits(backends.Limits{Wall: 3 * time.Second}), ended: "timeout", stdout: "begun\n"},
		{name: "children that stay behind", language: "shell", code: "setsid sleep 100 & (sleep 100; echo late) & echo done", stdout: "done\n"},
		{name: "out of memory", language: "python", code: "print('begun', flush=True)\nx = [bytearray(b'x' * (8 << 20)) for _ in range(100)]",
			change: tightLimits(backends.Limits{RAM: 128 << 20}), ended: "oom", stdout: "begun\n"},
		{name: "a child out of memory", language: "shell", code: "python3 -c \"x = b'x' * (300 << 20)\"; echo $?",
			change: tightLimits(backends.Limits{RAM: 128 << 20}), ended: "oom"},
		{name: "too many processes", language: "python", code: processes, change: tightLimits(backends.Limits{Processes: 5}),
			stdout: "refused True\n"},
		{name: "disk full", language: "python", code: disk, change: tightLimits(backends.Limits{Disk: 16 << 20}), ended: "", stdout: "ENOSPC"},
		{name: "shared memory full", language: "python", code: strings.ReplaceAll(disk, "/workspace", "/dev/shm"),
			change: tightLimits(backends.Limits{Disk: 16 << 20}), stdout: "ENOSPC"},
		{name: "too many files open", language: "python", code: "import os\nall = []\ntry:\n    while len(all) < 100000: " +
			"all.append(os.open('/dev/null', os.O_RDONLY))\nexcept OSError as e: print(e.strerror)\nprint(len(all) > 500)", stdout: "True"},
		{name: "stdin", language: "python", code: "import sys; print(len(sys.stdin.buffer.read()))", change: func(_ *bench, q *run.Request) {
			q.Stdin = strings.NewReader(strings.Repeat("in\n", 100000))
		}, stdout: "300000\n"},
		{name: "stdin that nobody reads", long: true, language: "shell", code: "exec <&-; echo done", change: func(_ *bench, q *run.Request) {
			q.Stdin = strings.NewReader(strings.Repeat("in\n", 1000000))
		}, stdout: "done\n"},
		{name: "no stdin", long: true, language: "shell", code: "wc -c", stdout: "0\n"},
		{name: "arguments", language: "python", code: "import sys; print(sys.argv)", change: func(_ *bench, q *run.Request) {
			q.Args = []string{"", "a b", "$HOME", "ä€😀", "new\nline", "--help", "-", "'\""}
		}, stdout: "'$HOME'"},
		{name: "environment", language: "python", code: "import os\nfor k in sorted(os.environ): print(k, ascii(os.environ[k]))",
			change: func(_ *bench, q *run.Request) { q.Env = []string{"ONE=1", "EMPTY=", "ODD=ä\n=$x"} }, stdout: "ONE '1'"},
		{name: "environment in node", long: true, language: "node", code: "for (const k of Object.keys(process.env).sort()) console.log(k, " +
			"JSON.stringify(process.env[k]))", stdout: "HOME"},
		{name: "environment in shell", long: true, language: "shell", code: "env -0 | sort -z | tr '\\0' '\\n'", stdout: "HOME"},
		{name: "surroundings", language: "python", code: surroundings, stdout: "dir /workspace"},
		{name: "git", long: true, language: "shell", code: "git init -q --template= . 2>&1 && git add . && git -c user.name=n -c " +
			"user.email=e@example.test commit -q -m one && git log --format=%s && rm -rf .git", stdout: "one\n"},
		{name: "modes", long: true, language: "shell", code: "touch f; mkdir d; stat -c '%n %a' f d; chmod 700 /workspace && stat -c " +
			"%a /workspace", stdout: "f 644"},
		{name: "unicode", language: "python", code: "print('ä€😀 \\u202e')\nopen('ä€😀.txt', 'w').write('x')", stdout: "ä€😀"},
		{name: "binary output", language: "python", code: "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000); " +
			"sys.stderr.buffer.write(bytes(range(255, -1, -1)))"},
		{name: "much output", language: "shell", code: "yes 0123456789 | head -c 30000000; yes x | head -c 3000000 >&2", stdout: "0123456789"},
		{name: "output that is cut", long: true, language: "shell", code: "yes ä | head -c 100001; echo end >&2",
			change: func(_ *bench, q *run.Request) { q.Output = 1000 }, stdout: "ä\n"},
		{name: "artifacts", language: "python", code: artifacts},
		{name: "many artifacts", long: true, language: "shell", code: "for i in $(seq 1200); do echo $i >f$i; done"},
		{name: "secret", language: "python", code: leak, change: withSecret, stdout: "***"},
		{name: "secret that is not there", language: "python", code: "pass", change: func(_ *bench, q *run.Request) {
			q.Secrets = []string{"NOT_THERE"}
		}, ended: "refused"},
		{name: "inputs", language: "shell", code: "find . -type f | sort | while read f; do echo \"$f $(stat -c %a \"$f\") $(cat \"$f\")\"; " +
			"done; echo more >>in/content.txt", change: func(b *bench, q *run.Request) {
			q.Inputs = []run.Input{{Name: "in/content.txt", Content: []byte("content")}, {Host: b.host + "/data"},
				{Host: b.host + "/data/one.txt", Name: "first.txt"}}
		}, stdout: "content"},
		{name: "an input that is not there", language: "shell", code: ":", change: func(_ *bench, q *run.Request) {
			q.Inputs = []run.Input{{Host: "/nonexistent/file"}}
		}, ended: "refused"},
		{name: "mounts", language: "python", code: mounts, change: withMounts, stdout: "one\n"},
		{name: "a mount that is not there", language: "shell", code: ":", change: func(_ *bench, q *run.Request) {
			q.Mounts = []backends.Mount{{Host: "/nonexistent/directory", Inside: "/data"}}
		}, ended: "refused"},
		{name: "a mount over what is ours", language: "shell", code: ":", change: func(b *bench, q *run.Request) {
			q.Mounts = []backends.Mount{{Host: b.host + "/data", Inside: "/proc"}}
		}, ended: "refused"},
		{name: "workspace", language: "shell", code: "cat given.txt; echo more >given.txt || echo refused; ls",
			change: func(b *bench, q *run.Request) { q.Workspace = backends.Mount{Host: b.host + "/work"} }, ended: "ok", stdout: "refused"},
		{name: "writable workspace", language: "shell", code: "cat given.txt; echo more >new.txt && mkdir -p sub && echo x >sub/y; ls",
			change: func(b *bench, q *run.Request) {
				q.Workspace = backends.Mount{Host: b.host + "/work", Write: true}
			}, stdout: "new.txt"},
		{name: "no network", language: "python", code: fetchProgram("http://" + openName + ":18471/x"), stdout: "[Errno"},
		{name: "allowed", language: "python", code: fetchProgram("http://"+openName+":18471/x", "http://"+openName+":18471/y"), change: typed,
			stdout: openName + " /y"},
		{name: "denied", language: "python", code: fetchProgram("http://"+deniedName+":18471/x", "http://127.0.0.72:18471/",
			"http://"+openName+"/"), change: typed, stdout: "[Errno"},
		{name: "allowed to node", long: true, language: "node", code: "fetch('http://" + openName +
			":18471/n').then(r => r.text()).then(console.log)", change: typed, stdout: openName + " /n"},
		{name: "not allowed by the operator", language: "shell", code: ":", change: func(_ *bench, q *run.Request) {
			q.Allow = []string{deniedName}
		}, ended: "refused"},
		{name: "syntax error", long: true, language: "python", code: "def f(:\n  pass", ended: "exit"},
		{name: "syntax error in node", language: "node", code: "const = 1", ended: "refused"},
		{name: "dangerous code", long: true, language: "python", code: "import os\nos.system('rm -rf /nonexistent/x')"},
		{name: "unknown language", language: "cobol", code: "x", ended: "refused"},
		{name: "unknown profile", language: "shell", code: ":", change: func(_ *bench, q *run.Request) { q.Profile = "nonsense" },
			ended: "refused"},
		{name: "more than the cap", language: "shell", code: ":", change: tightLimits(backends.Limits{RAM: 1 << 50}), ended: "refused"},
		{name: "missing module", long: true, language: "python", code: "import nosuchmodule_x", ended: "exit"},
		{name: "missing module in node", long: true, language: "node", code: "require('nosuchmodule-x')", ended: "exit"},
		{name: "missing file", long: true, language: "python", code: "open('data.csv')", change: func(_ *bench, q *run.Request) {
			q.Beside = func(name string) (string, bool) { return "/srv/" + name, name == "data.csv" }
		}, ended: "exit"},
		{name: "other addresses of its own", language: "python", code: ownServer, stdout: "answer"},
	}
}
