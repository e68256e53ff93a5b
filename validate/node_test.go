package validate

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// oddities are pieces of JavaScript about which parsers disagree.
var oddities = []string{
	"return 1", "#!/usr/bin/env node\nreturn", "with ({}) {}", "<!-- a\nf()\n--> b", "\n--> only here\nf()",
	"new.target", "var await = 1", "await: 1", "await\n(1)", "await `a`", "await /a/g", "async function await() {}",
	"async () => class { x = await }", "yield = 1", "let let_; var let = 1; let\nlet_ = 2", "static = package = 1",
	"x = 010; delete x", "'\\08'", "if (1) function f() {}", "label: function f() {}", "for (var i = 0 in {});",
	"try {} catch (e) { var e }", "function f(a, a) {}", "f() = 1", "f()++", "for (f() of []);", "eval = 1",
	"\"use strict\"; with (a) {}", "'use strict'; 010", "a?.b = 1", "a ?? b || c", "-1 ** 2", "async (x) => await x",
	"import 'fs'", "import fs from 'fs'\nreturn", "export {}", "export default 1; with (a) {}", "import('fs')",
	"import.meta", "import.meta.url; with (a) {}", "// import.meta\nwith (a) {}", "'import.meta'; return",
	"const x = await 1", "await 1; return", "await (async () => {})()", "for await (x of y);", "const require = 1",
	"const require = 1; import 'fs'", "function f() { await 1 }", "function f() { export {} }", "() => import.meta",
	"}); (function () {", "/* a", "'a", "`${", "f(", "a +", "class A {", "/(/", "/a/gg", "/a/v", "<div/>", "@a class A {}",
	"let a; let a", "const a", "1 = 2", "super.x", "break", "x = { 1n: 2 }", "class A { #x; m() { this.#y } }", "\u2118 = 1",
	"a\u2028b", "'\u2028'", "var \u088f", "using x = 1", "import a from 'a' with { type: 'json' }", "\ufefff()", "f()\r\rreturn\r", "",
	"import.meta; await (1); var await_", "enum: 1", "`\n;export{};)`", ";export{};)\nlet 1", "(function () { return\n",
}

// TestAsNode compares with this machine's Node: accepted code must not be refused, and a module is recognised like
// Node recognises it.
func TestAsNode(t *testing.T) {
	node := hosttest.Program(t, "node")
	in, _ := json.Marshal(oddities)
	cmd := exec.Command(node, "--experimental-vm-modules", "--no-warnings", "testdata/accepts.js")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var accepts [][2]bool
	if err := json.Unmarshal(out, &accepts); err != nil || len(accepts) != len(oddities) {
		t.Fatal(len(accepts), err)
	}
	for i, source := range oddities {
		if source == "" {
			continue
		}
		script, module := accepts[i][0], accepts[i][1]
		got, bad := check(t, Code{Name: "a.js", Source: []byte(source)})
		switch {
		case (script || module) && bad != nil:
			t.Errorf("%q: Node takes it, and it was refused: %v", source, bad)
		case source == "const require = 1": // a module only because it can't be a script, which Node detects
		case bad == nil && script && got.Name != "a.js", bad == nil && !script && module && got.Name != "a.mjs":
			t.Errorf("%q: name %s; Node takes it as CommonJS: %v, as a module: %v", source, got.Name, script, module)
		}
	}
}

// run executes the result of Check with Node, in a temporary directory.
func run(t *testing.T, c Checked) (stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), c.Name)
	if err := os.WriteFile(file, c.Source, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(hosttest.Program(t, "node"), "--enable-source-maps", file)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	return out.String(), errs.String()
}

func TestTypeScriptRuns(t *testing.T) {
	hosttest.Program(t, "node")
	tests := []struct{ name, file, source, stdout, stderr string }{
		{"types", "a.ts", "interface A { x: number }\nconst a: A = { x: 1 }\nconsole.log(a.x as number)", "1\n", ""},
		{"enum and namespace", "a.ts", "enum E { A = 3 }\nnamespace N { export const x = E.A }\nconsole.log(N.x, E[3])", "3 A\n", ""},
		{"parameter property", "a.ts", "class A { constructor(private x: number) {}; get() { return this.x } }\nconsole.log(new A(4).get())",
			"4\n", ""},
		{"decorator", "a.ts", "const d = (v: any, c: any) => console.log(c.kind)\n@d class A {}", "class\n", ""},
		{"using", "a.ts", "{ using x = { [Symbol.dispose ?? Symbol.for('Symbol.dispose')]() { console.log('gone') } } }", "gone\n", ""},
		{"module", "a.ts", "import { basename } from 'node:path'\nconsole.log(basename('/x/y'))\nexport {}", "y\n", ""},
		{"JSON import", "a.ts", "import fs from 'fs'\nconsole.log(typeof fs.close, typeof import.meta.url)", "function string\n", ""},
		{"top-level await", "a.ts", "const x: number = await Promise.resolve(5)\nconsole.log(x)", "5\n", ""},
		{"CommonJS", "a.ts", "const { basename } = require('path')\nconsole.log(basename('/x/y'), typeof module)", "y object\n", ""},
		{"import =", "a.ts", "import path = require('path')\nconsole.log(path.basename('/x/z'))", "z\n", ""},
		{"cts with import", "a.cts", "import { basename } from 'path'\nconsole.log(basename('/x/y'), typeof module)", "y object\n", ""},
		{"mts", "a.mts", "const x: number = 1\nconsole.log(typeof module)", "undefined\n", ""},
		{"line numbers", "b.ts", "interface A {\n  x: number\n}\n\nfunction fail(a: A): never {\n  throw new Error('x' + a.x)\n}\nfail({ x: 1 })",
			"", "b.ts:6:9"},
		{"line numbers in a module", "b.mts", "interface A {\n  x: number\n}\nexport const a: A = null as any\na.x", "", "b.mts:5:3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, bad := check(t, Code{Name: tt.file, Source: []byte(tt.source)})
			if bad != nil {
				t.Fatal(bad)
			}
			stdout, stderr := run(t, got)
			if stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
				t.Errorf("%s: stdout %q, want %q; stderr %q, want %q", got.Name, stdout, tt.stdout, stderr, tt.stderr)
			}
		})
	}
}
