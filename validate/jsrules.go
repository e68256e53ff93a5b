package validate

import (
	"slices"
	"strings"
	"sync"
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

// jsInspector inspects each call and each assignment of a program once.
type jsInspector struct {
	*jsProgram
	hits []hit
}

func (l *jsInspector) say(rule string, token int) {
	l.hits = append(l.hits, hit{rule, l.tokens[token].at})
}

// dangers inspects all expressions; whole is false if there are too many.
func (p *jsProgram) dangers() (hits []hit, whole bool) {
	l := &jsInspector{jsProgram: p}
	for i := range p.tokens {
		if p.exhausted() || len(l.hits) > 2*maxDangers {
			return l.hits, false
		}
		if !p.begins(i) {
			continue
		}
		c := p.chain(i, l.call)
		if c.shared && c.end < len(p.tokens) && p.tokens[c.end].kind == 'o' && assigns(p.tokens[c.end].text) {
			l.say("node-prototype", i)
		}
	}
	return l.hits, true
}

func (l *jsInspector) call(c jsCall) {
	for _, path := range c.callee {
		c := c
		if path != "util.promisify" {
			l.callbacks(c.args)
		}
		if base, is := strings.CutSuffix(path, ".call"); is {
			path, c.args = base, c.args[min(1, len(c.args)):]
		} else if base, is := strings.CutSuffix(path, ".apply"); is {
			path, c.args = base, nil
		}
		l.calls(strings.TrimSuffix(path, ".default"), c)
	}
}

// calls inspects a call of the function of a path.
func (l *jsInspector) calls(path string, c jsCall) {
	first := l.argument(c.args, 0)
	if rule := jsCalled()[path]; rule != "" {
		l.say(rule, c.start)
		if rule == "node-eval" || rule == "node-function-constructor" || rule == "node-vm" {
			l.evaluated(c)
		}
	}
	switch {
	case path == "setTimeout" || path == "setInterval" || path == "setImmediate":
		if text, _ := l.text(first); strings.Trim(text, unknownText) != "" {
			l.say("node-timer-text", c.start)
		}
	case requires(path):
		if _, known := l.text(first); !known && len(c.args) > 0 {
			l.say("node-dynamic-require", c.start)
		}
	case strings.HasPrefix(path, "child_process."):
		l.process(c, strings.TrimPrefix(path, "child_process."))
	case path == "cluster.fork" && l.forever(c.start):
		l.say("node-fork-bomb", c.start)
	case path == "worker_threads.Worker":
		if l.option(l.argument(c.args, 1), "eval") {
			l.say("node-eval", c.start)
		}
	case path == "process.kill":
		pid, _ := l.text(first)
		if slices.Contains([]string{"-1", "0", "1"}, pid) || slices.Contains(l.paths(first), "process.ppid") {
			l.say("node-kill-all", c.start)
		}
	case path == "Object.defineProperty" || path == "Object.assign" || path == "Object.defineProperties" || path == "Reflect.set":
		if slices.ContainsFunc(l.paths(first), sharedPrototype) {
			l.say("node-prototype", c.start)
		}
	case strings.HasPrefix(path, "fs."):
		name := strings.TrimPrefix(strings.TrimPrefix(path, "fs."), "promises.")
		l.writes(c, strings.TrimSuffix(name, "Sync"))
	case path == "fs-extra.remove" || path == "fs-extra.removeSync" || path == "rimraf" || path == "rimraf.sync":
		if everything(l.file(first)) {
			l.say("node-delete-all", c.start)
		}
	}
}

// callbacks inspects functions in the arguments of a call, which may call them: list.map(eval).
func (l *jsInspector) callbacks(args []jsSpan) {
	for _, a := range args {
		for _, path := range l.paths(a) {
			switch path {
			case "eval":
				l.say("node-eval", a.from)
			case "child_process.exec", "child_process.execSync":
				l.say("node-shell", a.from)
			}
		}
	}
}

// evaluated inspects the sources of text that becomes code.
func (l *jsInspector) evaluated(c jsCall) {
	for _, path := range l.sources(c.args) {
		switch {
		case slices.Contains([]string{"Buffer.from", "buffer.Buffer.from", "atob", "unescape", "decodeURIComponent", "zlib.gunzipSync",
			"zlib.inflateSync", "zlib.unzipSync", "zlib.brotliDecompressSync", "zlib.inflateRawSync"}, path):
			l.say("node-encoded-code", c.start)
		case jsCalled()[path] == "node-network":
			l.say("node-remote-code", c.start)
		}
	}
}

// sources returns the paths that are called anywhere in expressions, names followed a few steps.
func (l *jsInspector) sources(list []jsSpan) []string {
	var found []string
	list = slices.Clone(list)
	for n := 0; n < len(list) && n < 20; n++ {
		for i := list[n].from; i < min(list[n].to, list[n].from+2000); i++ {
			if !l.begins(i) {
				continue
			}
			l.chain(i, func(c jsCall) { found = append(found, c.callee...) })
			name, _ := l.named(l.tokens[i].text, i)
			for _, v := range l.names[name] {
				if l.word(i) && !slices.Contains(list, v.expr) {
					list = append(list, v.expr)
				}
			}
		}
	}
	return found
}

// writes inspects a call of a function of fs that changes files.
func (l *jsInspector) writes(c jsCall, name string) {
	var changed []int
	switch name {
	case "writeFile", "appendFile", "createWriteStream", "unlink", "rm", "rmdir", "mkdir", "chmod", "chown", "lchown", "truncate", "utimes":
		changed = []int{0}
	case "rename":
		changed = []int{0, 1}
	case "copyFile", "cp", "symlink", "link":
		changed = []int{1}
	case "open":
		if flags, _ := l.text(l.argument(c.args, 1)); strings.ContainsAny(flags, "wa+") {
			changed = []int{0}
		}
	}
	for _, i := range changed {
		switch file := l.file(l.argument(c.args, i)); {
		case (name == "rm" || name == "rmdir") && everything(file) && l.option(l.argument(c.args, 1), "recursive"):
			l.say("node-delete-all", c.start)
		case diskDevice().MatchString(file), systemFile(file):
			l.say("node-system-write", c.start)
		}
	}
}

// sharedPrototype reports whether a path is a prototype that objects of other code share.
func sharedPrototype(path string) bool {
	name, is := strings.CutSuffix(path, ".prototype")
	builtin := slices.Contains([]string{"Object", "Array", "String", "Number", "Function", "Promise", "Map", "Set", "Boolean", "RegExp", "Date"}, name)
	return is && (builtin || strings.HasSuffix(name, ".constructor")) || strings.HasSuffix(path, ".__proto__")
}
