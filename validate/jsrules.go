package validate

import (
	"slices"
	"strings"
	"sync"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

// jsCalls maps rules to paths: the rule applies to a call of the path, and to new with it.
var jsCalls = map[string][]string{
	"node-eval":                 {"eval"},
	"node-function-constructor": {"Function"},
	"node-vm": {"vm.runInNewContext", "vm.runInThisContext", "vm.runInContext", "vm.Script", "vm.compileFunction",
		"vm.SourceTextModule"},
	"node-binding": {"process.binding", "process._linkedBinding", "process.dlopen"},
	"node-socket": {"net.createServer", "net.connect", "net.createConnection", "net.Socket", "net.Server", "dgram.createSocket",
		"tls.connect", "tls.createServer", "http.createServer", "https.createServer", "http2.createServer",
		"http2.createSecureServer", "ws.WebSocketServer", "ws.Server"},
	"node-network": {"fetch", "http.get", "http.request", "https.get", "https.request", "http2.connect", "axios", "axios.get",
		"axios.post", "axios.request", "undici.request", "undici.fetch", "got", "node-fetch", "WebSocket", "ws", "XMLHttpRequest",
		"dns.lookup", "dns.resolve"},
}

// jsCalled maps a path to its rule.
var jsCalled = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for rule, paths := range jsCalls {
		for _, p := range paths {
			m[p] = rule
		}
	}
	return m
})

// jsInspector inspects each node of a program once.
type jsInspector struct {
	*jsProgram
	hits []hit
}

func (l *jsInspector) say(rule string, n ast.Node) { l.hits = append(l.hits, hit{rule, l.offset(n)}) }

// dangers inspects all nodes; whole is false if there are too many.
func (p *jsProgram) dangers() (hits []hit, whole bool) {
	l := &jsInspector{jsProgram: p}
	for _, n := range p.nodes {
		if p.steps > jsSteps || len(l.hits) > 2*maxDangers {
			return l.hits, false
		}
		switch x := n.node.(type) {
		case *ast.CallExpression:
			l.call(x, x.Callee, x.ArgumentList, n)
		case *ast.NewExpression:
			l.call(x, x.Callee, x.ArgumentList, n)
		case *ast.AssignExpression:
			l.assign(x, n.scope)
		}
	}
	return l.hits, true
}

func (l *jsInspector) call(x ast.Expression, callee ast.Expression, args []ast.Expression, n jsNode) {
	for _, path := range l.paths(callee, n.scope, 0) {
		args := args
		if path != "util.promisify" {
			l.callbacks(args, n.scope)
		}
		if base, is := strings.CutSuffix(path, ".call"); is {
			path, args = base, args[min(1, len(args)):]
		} else if base, is := strings.CutSuffix(path, ".apply"); is {
			path, args = base, nil
		}
		path = strings.TrimSuffix(path, ".default")
		if rule := jsCalled()[path]; rule != "" {
			l.say(rule, x)
			if rule == "node-eval" || rule == "node-function-constructor" || rule == "node-vm" {
				l.evaluated(x, args, n.scope)
			}
		}
		switch {
		case path == "setTimeout" || path == "setInterval" || path == "setImmediate":
			if isText(argument(args, 0)) {
				l.say("node-timer-text", x)
			}
		case requires(path):
			if _, known := l.text(argument(args, 0), n.scope, 0); !known && len(args) > 0 {
				l.say("node-dynamic-require", x)
			}
		case strings.HasPrefix(path, "child_process."):
			l.process(x, strings.TrimPrefix(path, "child_process."), args, n)
		case path == "cluster.fork" && l.endless(n):
			l.say("node-fork-bomb", x)
		case path == "worker_threads.Worker":
			if l.option(argument(args, 1), "eval", n.scope) {
				l.say("node-eval", x)
			}
		case path == "process.kill":
			l.kill(x, args, n.scope)
		case path == "Object.defineProperty" || path == "Object.assign" || path == "Object.defineProperties" || path == "Reflect.set":
			if slices.ContainsFunc(l.paths(argument(args, 0), n.scope, 0), sharedPrototype) {
				l.say("node-prototype", x)
			}
		case strings.HasPrefix(path, "fs."):
			name := strings.TrimPrefix(strings.TrimPrefix(path, "fs."), "promises.")
			l.writes(x, strings.TrimSuffix(name, "Sync"), args, n.scope)
		case path == "fs-extra.remove" || path == "fs-extra.removeSync" || path == "rimraf" || path == "rimraf.sync":
			if everything(l.file(argument(args, 0), n.scope, 0)) {
				l.say("node-delete-all", x)
			}
		}
	}
}

// callbacks inspects functions in the arguments of a call, which may call them: list.map(eval).
func (l *jsInspector) callbacks(args []ast.Expression, s *jsScope) {
	for _, a := range args {
		switch a.(type) {
		case *ast.Identifier, *ast.DotExpression:
			for _, path := range l.paths(a, s, 0) {
				switch path {
				case "eval":
					l.say("node-eval", a)
				case "child_process.exec", "child_process.execSync":
					l.say("node-shell", a)
				}
			}
		}
	}
}

func argument(args []ast.Expression, i int) ast.Expression {
	if i >= len(args) || slices.ContainsFunc(args[:i+1], func(e ast.Expression) bool { _, is := e.(*ast.SpreadElement); return is }) {
		return nil
	}
	return args[i]
}

// isText reports whether an expression can only be text.
func isText(e ast.Expression) bool {
	switch x := e.(type) {
	case *ast.StringLiteral:
		return true
	case *ast.TemplateLiteral:
		return x.Tag == nil
	case *ast.BinaryExpression:
		return x.Operator == token.PLUS && (isText(x.Left) || isText(x.Right))
	}
	return false
}

// evaluated inspects the sources of text that becomes code.
func (l *jsInspector) evaluated(x ast.Node, args []ast.Expression, s *jsScope) {
	for _, path := range l.inside(args, s) {
		switch {
		case slices.Contains([]string{"Buffer.from", "buffer.Buffer.from", "atob", "unescape", "decodeURIComponent", "zlib.gunzipSync",
			"zlib.inflateSync", "zlib.unzipSync", "zlib.brotliDecompressSync", "zlib.inflateRawSync"}, path):
			l.say("node-encoded-code", x)
		case jsCalled()[path] == "node-network":
			l.say("node-remote-code", x)
		}
	}
}

// inside returns the paths that are called anywhere in expressions, names followed a few steps.
func (l *jsInspector) inside(list []ast.Expression, s *jsScope) []string {
	var found []string
	p := newProgram()
	for _, e := range list {
		if e != nil {
			jsWalk{p, s, nil}.node(e)
		}
	}
	seen := map[ast.Expression]bool{}
	for i := 0; i < len(p.nodes) && i < 2000; i++ {
		l.steps++
		n := p.nodes[i]
		switch x := n.node.(type) {
		case *ast.CallExpression:
			found = append(found, l.paths(x.Callee, n.scope, 0)...)
		case *ast.Identifier:
			for _, b := range n.scope.lookup(string(x.Name)) {
				if b.value != nil && !seen[b.value] && len(seen) < 20 {
					seen[b.value] = true
					jsWalk{p, b.scope, nil}.node(b.value)
				}
			}
		}
	}
	return found
}

// writes inspects a call of a function of fs that changes files.
func (l *jsInspector) writes(x ast.Node, name string, args []ast.Expression, s *jsScope) {
	var changed []int
	switch name {
	case "writeFile", "appendFile", "createWriteStream", "unlink", "rm", "rmdir", "mkdir", "chmod", "chown", "lchown", "truncate", "utimes":
		changed = []int{0}
	case "rename":
		changed = []int{0, 1}
	case "copyFile", "cp", "symlink", "link":
		changed = []int{1}
	case "open":
		if flags, _ := l.text(argument(args, 1), s, 0); strings.ContainsAny(flags, "wa+") {
			changed = []int{0}
		}
	}
	for _, i := range changed {
		switch file := l.file(argument(args, i), s, 0); {
		case (name == "rm" || name == "rmdir") && everything(file) && l.option(argument(args, 1), "recursive", s):
			l.say("node-delete-all", x)
		case diskDevice().MatchString(file), systemFile(file):
			l.say("node-system-write", x)
		}
	}
}

// sharedPrototype reports whether a path is a prototype that objects of other code share.
func sharedPrototype(path string) bool {
	name, is := strings.CutSuffix(path, ".prototype")
	builtin := slices.Contains([]string{"Object", "Array", "String", "Number", "Function", "Promise", "Map", "Set", "Boolean", "RegExp", "Date"}, name)
	return is && (builtin || strings.HasSuffix(name, ".constructor")) || strings.HasSuffix(path, ".__proto__")
}

func (l *jsInspector) assign(x *ast.AssignExpression, s *jsScope) {
	left := x.Left
	for {
		var name string
		switch t := left.(type) {
		case *ast.DotExpression:
			name, left = string(t.Identifier.Name), t.Left
		case *ast.BracketExpression:
			name, _ = l.text(t.Member, s, 0)
			left = t.Left
		default:
			return
		}
		if name == "__proto__" || slices.ContainsFunc(l.paths(left, s, 0), sharedPrototype) {
			l.say("node-prototype", x)
			return
		}
	}
}
