package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// nodePath returns the interpreter of bare sandboxes. SANDBOXMCP_TEST_NODE names another one.
func nodePath(t testing.TB) map[string]string {
	t.Helper()
	name := os.Getenv("SANDBOXMCP_TEST_NODE")
	if name == "" {
		name = "node"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		hosttest.SkipMissing(t, "node", "it is not here")
	}
	return map[string]string{"node": path}
}

// node starts a Node kernel in a bare sandbox.
func node(t testing.TB) session {
	t.Helper()
	return startSession(t, newBare(t, nodePath(t)), "node")
}

// TestNodeCells runs cells one after the other in one session.
func TestNodeCells(t *testing.T) {
	cells := []struct {
		name, code string
		text       string // of the value, "Type: message" of the error, or "exit 7"; a regular expression
		stdout     string
		stderr     string // a substring; "" if it is empty
	}{
		{"empty", "", "", "", ""},
		{"comment", "// nothing", "", "", ""},
		{"value", "6 * 7", "42", "", ""},
		{"underscore is the last value", "_ + 1", "43", "", ""},
		{"undefined is not a value", "undefined", "", "", ""},
		{"undefined leaves the last value", "_", "43", "", ""},
		{"null is one", "null", "null", "", ""},
		{"a statement is none", "if (true) { 5 }", "", "", ""},
		{"the value stands before functions", "early()\nfunction early() { return 'hoisted' }", "'hoisted'", "", ""},
		{"output", "console.log('out'); console.error('err'); 'v'", "'v'", "out\n", "err\n"},

		{"declarations", "const a = 1, { b, c = 5 } = { b: 2 }; let d; class A {}; function f() { return 1 }; var v = 1", "", "", ""},
		{"live on", "[a, b, c, d, A.name, f(), v]", `\[ 1, 2, 5, undefined, 'A', 1, 1 \]`, "", ""},
		{"const again", "const a = 2; a", "2", "", ""},
		{"const to let", "let a = 3; a", "3", "", ""},
		{"let to function", "function a() { return 4 } a()", "4", "", ""},
		{"function to class", "class a { static x = 5 } a.x", "5", "", ""},
		{"class to var", "var a = 6; a", "6", "", ""},
		{"var to const", "const a = 7; a", "7", "", ""},
		{"let without a value", "let a; a", "", "", ""},
		{"var without a value keeps it", "a = 8; var a; a", "8", "", ""},
		{"functions see what is declared later", "const g = () => a; function h() { return f() }", "", "", ""},
		{"as it is then", "const a = 9; function f() { return 'new' } [g(), h()]", `\[ 9, 'new' \]`, "", ""},
		{"holes and rests", "const [x1, , ...x2] = [1, 2, 3]; let { y1: { y2 = 4 }, ...y3 } = { y1: {}, z: 5 }; [x1, x2, y2, y3]",
			`\[ 1, \[ 3 \], 4, { z: 5 } \]`, "", ""},
		{"no semicolon", "let p = 1\nlet q = p\nconst [r] = [2]\n;[p, q, r]", `\[ 1, 1, 2 \]`, "", ""},
		{"var in blocks", "for (var i = 0, j = 2; i < 3; i++) { var k = i } if (k) var l = 1; for (var { m } of [{ m: 3 }]); switch (1) { " +
			"case 1: var n = 4 } [i, j, k, l, m, n]", `\[ 3, 2, 2, 1, 3, 4 \]`, "", ""},
		{"blocks keep their own", "{ let a = 'inner'; const own = 1 } [a, typeof own]", `\[ 9, 'undefined' \]`, "", ""},
		{"names of functions", "const f1 = () => 1, f2 = function () {}, f3 = class {}; function f4() {} [f1.name, f2.name, f3.name, f4.name]",
			`\[ 'f1', 'f2', 'f3', 'f4' \]`, "", ""},
		{"a function replaced by itself", "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } const plain = fib; fib = (n) => " +
			"100; plain(2)", "200", "", ""},
		{"async and generators", "async function af() { return 1 } function* gf() { yield 2 } [await af(), ...gf()]", `\[ 1, 2 \]`, "", ""},
		{"a name that hides a global", "const URL = 'mine'; [URL, typeof globalThis.URL]", `\[ 'mine', 'function' \]`, "", ""},
		{"const fs", "const fs = require('fs'); typeof fs.readFileSync", "'function'", "", ""},
		{"strict", "'use strict'; const s = 1; function sf() { return this } [sf(), s]", `\[ undefined, 1 \]`, "", ""},
		{"a failed cell declares nothing that is dead", "const broken = nowhere()", "ReferenceError: nowhere is not defined", "", ""},
		{"declared after all", "const broken = 1; broken", "1", "", ""},
		{"export", "export const ex = 1; export default function de() { return ex } de()", "1", "", ""},
		{"a shebang", "#!/usr/bin/env node\n5", "5", "", ""},
		{"this", "this === globalThis", "true", "", ""},
		{"right globals", "[[] instanceof Array, JSON.parse('[]') instanceof Array, new Error() instanceof Error, " +
			"require('util').types.isNativeError(new TypeError())]", `\[ true, true, true, true \]`, "", ""},

		{"await", "const w = await new Promise((r) => setTimeout(r, 2, 'waited')); w", "'waited'", "", ""},
		{"kept", "w", "'waited'", "", ""},
		{"a promise is awaited", "Promise.resolve({ done: 1n })", "{ done: 1n }", "", ""},
		{"main()", "async function main() { await null; return 'main' }\nmain()", "'main'", "", ""},
		{"for await", "for await (const x of (async function* () { yield 1 })()) console.log(x)", "", "1\n", ""},
		{"background goes on", "setTimeout(() => console.log('tick'), 20); 1", "1", "", ""},
		{"with the next", "await new Promise((r) => setTimeout(r, 100))", "", "tick\n", ""},

		{"require", "require('path').join('a', 'b')", "'a/b'", "", ""},
		{"main module", "require.main === module && typeof exports === 'object' && __filename === require('path').join(__dirname, 'session.js')",
			"true", "", ""},
		{"a file", "fs.writeFileSync('m.js', 'exports.m = 5'); fs.writeFileSync('m.mjs', 'export default 6; export const n = 7'); " +
			"require('./m').m", "5", "", ""},
		{"import()", "(await import('./m.mjs')).n", "7", "", ""},
		{"import", "import m6, { n as n7 } from './m.mjs'\nimport * as os from 'node:os'\nimport 'fs'\n[m6, n7, typeof os.cpus]",
			`\[ 6, 7, 'function' \]`, "", ""},
		{"imports come first", "const up = hoisted('/a/b'); import { basename as hoisted } from 'path'; up", "'b'", "", ""},
		{"import what is not there", "import { nope } from 'fs'", "SyntaxError: The requested module 'fs' does not provide an export " +
			"named 'nope'", "", ""},
		{"import.meta", "[import.meta.filename === __filename, import.meta.url.startsWith('file:///')]", `\[ true, true \]`, "", ""},
		{"import in text", "'import x from y; const z = import(1)' + `${'import.meta'}`", ".*", "", ""},
		{"a module that is missing", "require('nowhere')", "(?s)Error: Cannot find module 'nowhere'.*", "", ""},

		{"syntax error", "let y = ;", "SyntaxError: Unexpected token ';'", "", ""},
		{"syntax error beside an import", "import x from 'y'\nlet y = ;", "SyntaxError: Unexpected token", "", ""},
		{"declared twice", "let t1; let t1", "SyntaxError: Identifier 't1' has already been declared", "", ""},
		{"throw a number", "throw 1", "number: 1", "", ""},
		{"throw null", "throw null", "null: null", "", ""},
		{"throw undefined", "throw undefined", "undefined: undefined", "", ""},
		{"throw an object", "throw { a: 1 }", "object: { a: 1 }", "", ""},
		{"own class of errors", "class Mine extends Error {} throw new Mine('m')", "Mine: m", "", ""},
		{"rejection", "Promise.reject(new RangeError('r'))", "RangeError: r", "", ""},
		{"rejection that nobody handles", "Promise.reject(new RangeError('u')); 5", "RangeError: u", "", ""},
		{"error in a callback", "setTimeout(() => { throw new Error('late') }, 2); await new Promise(() => {})", "Error: late", "", ""},
		{"error of an emitter", "process.nextTick(() => new (require('events'))().emit('error', new Error('emitted'))); await new " +
			"Promise(() => {})", "Error: emitted", "", ""},
		{"error between cells", "setTimeout(() => { throw new Error('between') }, 5); 1", "1", "", ""},
		{"is shown with the next", "require('child_process').execSync('true'); 2", "2", "", ""},
		{"own handler", "process.on('uncaughtException', (e) => console.log('mine', e.message)); setTimeout(() => { throw new Error('h') }, " +
			"1); await new Promise((r) => setTimeout(r, 20)); 'ok'", "'ok'", "mine h\n", ""},
		{"all handlers removed", "process.removeAllListeners(); setTimeout(() => { throw new Error('again') }, 1); await new Promise(() => {})",
			"Error: again", "", ""},
		{"hostile error", "class H extends Error { get message() { throw 1 } get stack() { throw 2 } get name() { throw 3 } } throw new H('h')",
			"(Error|H): h", "", ""},
		{"hostile object", "throw { get message() { throw 1 }, get stack() { throw 2 } }", "object: .*", "", ""},
		{"hostile inspect", "({ [require('util').inspect.custom]() { throw new Error('no') }, a: 1 })", `(?s){.*a: 1.*}`, "", ""},
		{"hostile proxy", "[new Proxy({}, new Proxy({}, { get() { throw new Error('trap') } }))]", `\[ {} \]`, "", ""},
		{"deep recursion", "(function r() { r() })()", "RangeError: Maximum call stack size exceeded", "", ""},

		{"exit", "process.exit(7)", "exit 7", "", ""},
		{"exit at once", "try { process.exit(3) } catch { console.log('caught') } finally { console.log('finally') }", "exit 3", "", ""},
		{"exit in a callback", "setTimeout(() => { process.exit(4); console.log('on') }, 1); await new Promise(() => {})", "exit 4", "", ""},
		{"exit in an await", "await null; try { process.exit() } catch {} console.log('on')", "exit 0", "", ""},
		{"exitCode", "process.exitCode = 5; undefined", "exit 5", "", ""},
		{"is over", "process.exitCode", "", "", ""},
		{"state is still there", "a", "9", "", ""},

		{"child", "require('child_process').spawnSync('sh', ['-c', 'echo child; echo problem >&2'], { stdio: 'inherit' }).status", "0", "child\n",
			"problem\n"},
		{"channel is not for children", "require('child_process').spawnSync('sh', ['-c', 'readlink /proc/self/fd/3 || echo none'], { stdio: " +
			"['ignore', 'inherit', 'inherit'] }).status", "0", "none\n", ""},
		{"fork", "fs.writeFileSync('f.js', 'console.log(process.execArgv.length)'); await new Promise((r) => " +
			"require('child_process').fork('./f.js').on('exit', r))", "0", "0\n", ""},
		{"worker", "const wk = new (require('worker_threads').Worker)('console.log(1)', { eval: true }); await new Promise((r) => " +
			"wk.on('exit', r))", "0", "1\n", ""},
		{"stdin is empty", "fs.readFileSync(0, 'utf8')", "''", "", ""},
		{"stdout.write replaced", "process.stdout.write = () => true; console.log('lost')", "", "", ""},
		{"and back", "delete process.stdout.write; console.log('back')", "", "back\n", ""},
		{"stdout ended", "process.stdout.end('last\\n'); process.stdout.destroy(); undefined", "", "last\n", ""},
		{"is open again", "console.log('again')", "", "again\n", ""},

		{"globals replaced", "const kept = { JSON, Promise, push: Array.prototype.push, it: Array.prototype[Symbol.iterator], then: " +
			"Promise.prototype.then }; globalThis.JSON = globalThis.Promise = globalThis.Buffer = globalThis.setImmediate = null; Array.prototype.push = kept.then.call = () => { throw 1 }; Object.defineProperty(Object.prototype, 'op', { set() { throw 2 }, configurable: true }); Object.prototype.toJSON = () => 'forged'; 1", "1", "", ""},
		{"cells go on", "const after = [1]; after.length", "1", "", ""},
		{"breaking promises fails the cell", "Array.prototype[Symbol.iterator] = null; kept.Promise.prototype.then = () => { throw 3 }",
			"number: 3", "", ""},
		{"and not the next", "after[0]", "1", "", ""},
		{"restored", "Array.prototype[Symbol.iterator] = kept.it; Array.prototype.push = kept.push; kept.Promise.prototype.then = kept.then; " +
			"delete Object.prototype.op; delete Object.prototype.toJSON; globalThis.Promise = kept.Promise; globalThis.JSON = kept.JSON; await 2",
			"2", "", ""},
		{"globals deleted", "for (const n of ['process', 'console', 'setTimeout', 'Error', 'Object', 'Array']) delete globalThis[n]; 1", "1", "",
			""},
		{"cells still go on", "const last = 3; last", "3", "", ""},
	}
	s := node(t)
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			r := s.run(c.code)
			text := r.text()
			if r.Error != nil {
				text = r.Error.Type + ": " + r.Error.Message
			}
			if r.Exit != nil {
				text = "exit " + strconv.Itoa(*r.Exit)
			}
			if text != c.text && !regexp.MustCompile("^("+c.text+")$").MatchString(text) {
				t.Errorf("value %.600q, want %q", text, c.text)
			}
			if r.Stdout != c.stdout {
				t.Errorf("stdout %.600q, want %q", r.Stdout, c.stdout)
			}
			if c.name == "is shown with the next" {
				return // the time of its arrival is the next test's subject
			}
			if r.Stderr != c.stderr && (c.stderr == "" || !strings.Contains(r.Stderr, c.stderr)) {
				t.Errorf("stderr %.600q, want %q in it", r.Stderr, c.stderr)
			}
			if r.Lost {
				death, err := s.Death()
				t.Fatalf("dead: %+v %v", death, err)
			}
		})
		if c.name == "error between cells" {
			s.t = t
			s.waitBetween(s.err, "Error")
		}
	}
}

// TestNodeBetween checks callbacks and output while no cell runs.
func TestNodeBetween(t *testing.T) {
	s := node(t)
	s.run("setTimeout(() => { console.log('ticked'); throw new TypeError('between') }, 10); setTimeout(() => process.exit(1), 20); " +
		"setTimeout(() => display('shown'), 30); const kept = 1")
	s.waitBetween(s.out, "shown\n")
	s.waitBetween(s.err, "between cells")
	r := s.run("kept")
	if r.text() != "1" || r.Stdout != "ticked\nshown\n" || !strings.Contains(r.Stderr, "TypeError: between\n    at Timeout") ||
		!strings.Contains(r.Stderr, "process.exit(1) was called between cells") {
		t.Errorf("got %s, stdout %q, stderr %q", r.text(), r.Stdout, r.Stderr)
	}
}

// TestNodeTracebacks checks that a traceback has the cells' lines and columns, and only the program's frames.
func TestNodeTracebacks(t *testing.T) {
	cells := []struct{ name, code, want string }{
		{"function", "function f() {\n  throw new TypeError('x')\n}\n  f()", "TypeError: x\n    at f (CELL:2:9)\n    at CELL:4:3"},
		{"of an earlier cell", "f()", "TypeError: x\n    at f (cell 1:2:9)\n    at CELL:1:1"},
		{"last line", "let u = 1; u.x.y", "TypeError: Cannot read properties of undefined (reading 'y')\n    at CELL:1:16"},
		{"behind a class", "class Z { static m() { throw new Error('z') } } Z.m()", "Error: z\n    at Z.m (CELL:1:30)\n    at CELL:1:51"},
		{"behind a pattern", "const { o } = { o: 1 }; o.x.y", "TypeError: Cannot read properties of undefined (reading 'y')\n    at CELL:1:29"},
		{"below an import", "import { join } from 'path'\njoin(1)", "at CELL:2:1"},
		{"after an await", "await 1\nthrow new Error('a')", "Error: a\n    at CELL:2:7"},
		{"cause", "throw new Error('out', { cause: new Error('in') })",
			"Error: out\n    at CELL:1:7 {\n  [cause]: Error: in\n      at CELL:1:33\n}"},
		{"several", "throw new AggregateError([new Error('one')], 'all')", "[errors]: [\n    Error: one"},
		{"more than a message", "require('fs').readFileSync('/nowhere')", "Error: ENOENT: no such file or directory, open '/nowhere'\n    at " +
			"CELL:1:15 {\n"},
		{"timer", "setTimeout(() => { throw new Error('t') }, 1); await new Promise(() => {})",
			"Error: t\n    at Timeout._onTimeout (CELL:1:26)"},
		{"syntax", "let ok = 1\nlet bad = ;", "CELL:2\nlet bad = ;\n          ^\n\nSyntaxError: Unexpected token ';'"},
		{"syntax behind an import", "import a from 'fs'\nlet bad = ;", "CELL:2\nlet bad = ;\n          ^\n\nSyntaxError: Unexpected token"},
		{"not an error", "throw 5", "Uncaught 5"},
	}
	s := node(t)
	for i, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			s.t = t
			name := "cell " + strconv.Itoa(i+1)
			r := s.cell(t.Context(), Cell{Code: c.code, Name: name})
			if r.Error == nil {
				t.Fatalf("got %+v", r.Outcome)
			}
			want := strings.ReplaceAll(c.want, "CELL", name)
			if !strings.Contains(r.Error.Traceback, want) {
				t.Errorf("got\n%s\nwant\n%s", r.Error.Traceback, want)
			}
			for _, foreign := range []string{"node:", "kernel-driver"} {
				if strings.Contains(r.Error.Traceback, foreign) {
					t.Errorf("%s in\n%s", foreign, r.Error.Traceback)
				}
			}
		})
	}
}

func TestNodeInterrupt(t *testing.T) {
	cells := []struct{ name, code string }{
		{"loop", "begun(); while (true) {}"},
		{"loop that catches", "while (true) { try { begun(); for (;;); } catch {} finally { continue } }"},
		{"await", "begun(); await new Promise(() => {})"},
		{"endless awaits", "begun(); while (true) await null"},
		{"loop after an await", "await require('fs').promises.readFile('/etc/hostname').catch(() => {}); begun(); for (;;);"},
		{"loop in a timer", "setTimeout(() => { begun(); for (;;); }, 5); await new Promise(() => {})"},
		{"loop in an immediate", "setImmediate(() => { begun(); for (;;); }); await new Promise(() => {})"},
		{"loop in a tick", "process.nextTick(() => { begun(); for (;;); }); await new Promise(() => {})"},
		{"Atomics.wait", "begun(); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"},
		{"child", "require('child_process').execSync('echo begun; sleep 100', {stdio: 'inherit'})"},
		{"regular expression", "begun(); /^(a+)+$/.test('a'.repeat(40) + 'b')"},
		{"inspect", "[{ [require('util').inspect.custom]() { begun(); for (;;); } }]"},
		{"own handler", "process.on('SIGINT', () => {}); begun(); for (;;);"},
		{"loop in a context", "const store = new (require('async_hooks').AsyncLocalStorage)(); store.run('left', () => setTimeout(() => { " +
			"begun(); for (;;); }, 5)); await new Promise(() => {})"},
	}
	for _, place := range []struct {
		name  string
		start func(testing.TB) session
	}{{"bare", node}, {"sandbox", func(t testing.TB) session { return sandboxed(t, "node", backends.Limits{}) }}} {
		t.Run(place.name, func(t *testing.T) {
			t.Parallel()
			s := place.start(t)
			s.run("const begun = () => require('fs').writeSync(1, 'begun\\n'), kept = 17; require('fs').writeFileSync('x', '')")
			for _, c := range cells {
				t.Run(c.name, func(t *testing.T) {
					s.t = t
					r := s.runInterrupted(c.code)
					// a child may report its own end first
					if r.Ended != "cancelled" || r.Lost || r.Error == nil || r.Error.Type != "Interrupted" && c.name != "child" {
						t.Fatalf("got %+v %v", r.Outcome, r.Error)
					}
					if r := s.run("await new Promise((r) => setImmediate(r)); await new Promise((r) => setTimeout(r, 1)); kept"); r.text() != "17" {
						t.Errorf("the state is %s", r.text())
					}
				})
			}
			s.t = t
			if r := s.run("await new Promise((r) => setTimeout(r, 1)); String(store.getStore())"); r.text() != "'undefined'" {
				t.Errorf("the interrupted code's context is still there: %s", r.text())
			}
			if r := s.run("require('fs').closeSync(1)"); r.Lost {
				t.Errorf("with descriptor 1 closed: %+v", r.Outcome)
			}
			checkMarked(t, s.out)
			// Termination in the middle of a callback must not leave the event loop spinning.
			if r := s.run("const before = process.cpuUsage(); await new Promise((r) => setTimeout(r, 300)); const used = " +
				"process.cpuUsage(before); (used.user + used.system) / 1000"); r.Error != nil {
				t.Error(r.Error)
			} else if ms, _ := strconv.ParseFloat(r.text(), 64); ms > 150 {
				t.Errorf("idle, it used %v ms of 300", ms)
			}
		})
	}
}

func TestNodeDeath(t *testing.T) {
	for _, c := range []struct{ name, code string }{
		{"kill", "process.kill(process.pid, 'SIGKILL')"},
		{"abort", "process.abort()"},
		{"reallyExit", "process.reallyExit(3)"},
		{"memory", "const a = []; for (;;) a.push(new Array(1000).fill({}))"},
		{"channel closed", "require('fs').closeSync(3)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k, err := Start(t.Context(), newBare(t, nodePath(t)), "node", backends.Command{Env: []string{"NODE_OPTIONS=--max-old-space-size=60"},
				Main: true})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			s := session{k, t}
			if r := s.run(c.code); r.Ended != "dead" || !r.Lost {
				t.Errorf("got %+v", r.Outcome)
			}
		})
	}
}

// TestNodePackages imports packages from NODE_PATH and from the workspace.
func TestNodePackages(t *testing.T) {
	s := node(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"package.json": `{"name":"pack","main":"i.js"}`, "i.js": "exports.from = 'path'"} {
		if err := os.MkdirAll(filepath.Join(dir, "pack"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pack", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := Cell{Code: "require('module')._initPaths(); require('pack').from", Env: []string{"NODE_PATH=" + dir}}
	if r := s.cell(t.Context(), c); r.text() != "'path'" {
		t.Errorf("require: %s", r.text())
	}
	if r := s.run("import pack from 'pack'; pack.from + (await import('pack')).default.from"); r.text() != "'pathpath'" {
		t.Errorf("import: %s", r.text())
	}
}

func BenchmarkNodeCell(b *testing.B) {
	s := sandboxed(b, "node", backends.Limits{})
	c := Cell{Code: "1", Timeout: time.Minute}
	for b.Loop() {
		if out, err := s.Run(b.Context(), c); err != nil || out.Ended != "ok" {
			b.Fatalf("%+v %v", out, err)
		}
	}
}
