package packages

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// stock fills the registry of a test.
func stock(r *registry) {
	r.wheel("greet", "1.0", map[string]string{"greet/__init__.py": "import tone\ndef hello(): return 'hello one, ' + tone.name\n",
		"greet/old.py": ""}, "tone>=1")
	r.wheel("greet", "2.0", map[string]string{"greet/__init__.py": "import tone\ndef hello(): return 'hello two, ' + tone.name\n"}, "tone>=1")
	r.wheel("tone", "1.0", map[string]string{"tone.py": "name = 'friend'\n"})
	r.wheel("loud", "1.0", map[string]string{"loud.py": "import tone; name = tone.name.upper()\n"}, "tone>=1")
	needs := map[string]any{"dependencies": map[string]string{"tone": "^1.0.0"}}
	r.node("greet", "1.0.0", map[string]string{"index.js": "module.exports = 'hello one, ' + require('tone')"}, needs)
	r.node("greet", "2.0.0", map[string]string{"index.js": "module.exports = 'hello two, ' + require('tone')"}, needs)
	r.node("tone", "1.0.0", map[string]string{"index.js": "module.exports = 'friend'"}, nil)
	r.node("@team/loud", "1.0.0", map[string]string{"index.js": "module.exports = require('tone').toUpperCase()"}, needs)
}

const (
	pyHello   = "import greet; print(greet.hello())"
	nodeHello = "console.log(require('greet'))"
)

// TestPython installs a package with a dependency, and imports it in a later sandbox.
func TestPython(t *testing.T) {
	for name, json := range map[string]bool{"PEP 503": false, "PEP 691": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Config{})
			stock(b.registry)
			b.json = json
			var lines []string
			o := b.order("python", "greet==1.0")
			o.Limits = backends.DefaultLimits
			o.Progress = func(line string) { lines = append(lines, line) }
			r := b.install(o)
			want := []Package{
				{Name: "greet", Version: "1.0", Hash: "sha256:" + sha(b.wheels["greet-1.0-py3-none-any.whl"]), Requested: true},
				{Name: "tone", Version: "1.0", Hash: "sha256:" + sha(b.wheels["tone-1.0-py3-none-any.whl"])},
			}
			if d := cmp.Diff(want, r.Packages); d != "" {
				t.Errorf("packages (-want +got):\n%s", d)
			}
			if got := b.run("default", "python", pyHello); got != "hello one, friend" {
				t.Errorf("got %q", got)
			}
			if !slices.Contains(lines, "Successfully installed greet-1.0 tone-1.0") || !strings.Contains(r.Stdout, "Successfully installed") {
				t.Errorf("progress %q, stdout %q", lines, r.Stdout)
			}
			if len(r.Hosts) != 2 || !r.Hosts[0].Allowed || r.Hosts[0].Name != "127.0.0.1" || r.Hosts[1].Name != "localhost" ||
				r.Hosts[1].Count < 2 || r.Hosts[1].Received < 1000 {
				t.Errorf("hosts: %+v", r.Hosts)
			}
			if missing := lacking(r.Result.Contained); missing != nil || r.Result.Ended != backends.EndedOK {
				t.Errorf("not in force: %v, %+v", missing, r.Result)
			}
			if v := b.view("default", "", "python"); v.Layer != r.Layer || len(r.Layer) != 64 {
				t.Errorf("layer %q, receipt %q", v.Layer, r.Layer)
			}
			// A read-only layer is of no use if each run has to compile it again. PEP 552: hash-based, and not to be checked.
			got := b.run("default", "python", `
import greet, tone
for m in (greet, tone):
    data = open(m.__cached__, 'rb').read()
    print(int.from_bytes(data[4:8], 'little'), m.__file__ == m.hello.__code__.co_filename if m is greet else '')`)
			if got != "1 True\n1" {
				t.Errorf("compiled: %q", got)
			}
		})
	}
}

func lacking(c backends.Containment) (missing []string) {
	for _, name := range backends.ContainmentLayers {
		if !slices.Contains(c.InForce(), name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func TestNode(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	var lines []string
	o := b.order("node", "greet@1.0.0")
	o.Limits = backends.DefaultLimits
	o.Progress = func(line string) { lines = append(lines, line) }
	r := b.install(o)
	if len(r.Packages) != 2 || r.Packages[0].Name != "greet" || r.Packages[0].Version != "1.0.0" || !r.Packages[0].Requested ||
		r.Packages[1].Name != "tone" || r.Packages[1].Requested || !strings.HasPrefix(r.Packages[1].Hash, "sha512-") {
		t.Errorf("packages: %+v", r.Packages)
	}
	if !slices.Contains(lines, "fetched 1.0.0.tgz from "+strings.TrimPrefix(b.fileURL(""), "http://")) {
		t.Errorf("progress %q", lines)
	}
	for name, code := range map[string]string{
		"require": nodeHello,
		"import":  "import greet from 'greet'; console.log(greet)",
		"import elsewhere": "import fs from 'fs'; fs.writeFileSync('/tmp/x.mjs', `import greet from 'greet'; console.log(greet)`); " +
			"import('/tmp/x.mjs')",
	} {
		if got := b.run("default", "node", code); got != "hello one, friend" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	r = b.install(b.order("node", "@team/loud"))
	if len(r.Packages) != 1 || r.Packages[0].Name != "@team/loud" {
		t.Errorf("a second order brought %+v", r.Packages)
	}
	if got := b.run("default", "node", "console.log(require('@team/loud'), require('greet'))"); got != "FRIEND hello one, friend" {
		t.Errorf("both: got %q", got)
	}
}

// TestAgain installs into a layer that contains packages: named packages change, all others stay.
func TestAgain(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.install(b.order("python", "greet==1.0"))
	b.wheel("tone", "2.0", map[string]string{"tone.py": "name = 'stranger'\n"})
	b.install(b.order("python", "loud"))
	if got := b.run("default", "python", pyHello+"; import loud; print(loud.name)"); got != "hello one, friend\nFRIEND" {
		t.Errorf("tone was not named, and yet: %q", got)
	}
	b.install(b.order("python", "Greet"))
	if got := b.run("default", "python", pyHello+"; import os; print(os.path.exists('/packages/greet/old.py'), len([f for f in "+
		"os.listdir('/packages/greet/__pycache__') if 'old' in f]))"); got != "hello two, friend\nFalse 0" {
		t.Errorf("after an upgrade: %q", got)
	}
	b.wheel("picky", "1.0", map[string]string{"picky.py": ""}, "tone>=2")
	if r := b.fails(b.order("python", "picky")); !strings.Contains(r.Stderr, "in the same request") {
		t.Errorf("a conflict says %q", r.Stderr)
	}
	b.install(b.order("python", "picky", "tone"))
	if got := b.run("default", "python", pyHello); got != "hello two, stranger" {
		t.Errorf("got %q", got)
	}
}

// TestFailures: each failure is a receipt with the package manager's message, and changes nothing.
func TestFailures(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.sums["forged-1.0-py3-none-any.whl"] = sha([]byte("another file"))
	b.wheel("forged", "1.0", map[string]string{"forged.py": ""})
	b.source("built", "1.0", map[string]string{"setup.py": "open('/tmp/ran', 'w'); from setuptools import setup; setup(name='built', " +
		"version='1.0')", "PKG-INFO": "Metadata-Version: 1.0\nName: built\nVersion: 1.0\n"})
	b.sums["forged@1.0.0"] = "sha512-" + strings.Repeat("A", 86) + "=="
	b.node("forged", "1.0.0", map[string]string{"index.js": ""}, nil)
	b.node("direct", "1.0.0", map[string]string{"index.js": ""},
		map[string]any{"dependencies": map[string]string{"x": "http://elsewhere.example/x.tgz"}})
	b.wheel("direct", "1.0", map[string]string{"direct.py": ""}, "x @ http://elsewhere.example/x-1.0-py3-none-any.whl")
	b.wheel("sneaky", "1.0", map[string]string{"sneaky.py": ""}, "built @ "+b.fileURL("/wheels/built-1.0.tar.gz"))
	for _, language := range []string{"python", "node"} {
		b.install(b.order(language, "greet"))
	}
	tests := []struct {
		name, language, spec, says string
	}{
		{"unknown", "python", "nosuchpackage", "No matching distribution"},
		{"wrong hash", "python", "forged", "HASHES"},
		{"needs to be built", "python", "built", "only wheels are installed"},
		{"file from elsewhere", "python", "direct", "403"},
		{"needs to be built, from an address", "python", "sneaky", "only wheels are allowed"},
		{"unknown version", "node", "greet@9", "ETARGET"},
		{"wrong hash", "node", "forged", "EINTEGRITY"},
		{"file from elsewhere", "node", "direct", "E403"},
	}
	for _, tt := range tests {
		t.Run(tt.language+" "+tt.name, func(t *testing.T) {
			before := b.view("default", "", tt.language).Layer
			r, err := b.Install(t.Context(), b.order(tt.language, tt.spec))
			if err != nil || r.ExitCode == 0 || r.Packages != nil || r.Layer != "" || !strings.Contains(r.Stdout+r.Stderr, tt.says) {
				t.Errorf("got %+v %v, want a failure that says %q", r, err, tt.says)
			}
			if after := b.view("default", "", tt.language).Layer; after != before {
				t.Errorf("the layer has changed")
			}
		})
	}
	clean(t, b.cfg.Dir)
}

// clean checks that nothing half-done lies in a store.
func clean(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"namespaces/*/*/.new*", "sessions/.new*", "cache/.new*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, pattern)); left != nil {
			t.Errorf("left behind: %v", left)
		}
	}
	made, _ := filepath.Glob(filepath.Join(dir, "namespaces/*/*/"+layerPrefix+"*"))
	sessions, _ := filepath.Glob(filepath.Join(dir, "sessions/"+layerPrefix+"*"))
	for _, l := range append(made, sessions...) {
		if _, err := load(l); err != nil {
			t.Errorf("left behind: %v", err)
		}
	}
}

// TestScripts: scripts that a package would run during its installation do not run, unless the operator allows it.
func TestScripts(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		b := newBench(t, Config{Scripts: allowed})
		b.node("eager", "1.0.0", map[string]string{"index.js": "module.exports = require('fs').existsSync(__dirname + '/ran')"},
			map[string]any{"scripts": map[string]string{"postinstall": "echo ran >ran"}, "hasInstallScript": true})
		b.install(b.order("node", "eager"))
		want := map[bool]string{false: "false", true: "true"}[allowed]
		if got := b.run("default", "node", "console.log(require('eager'))"); got != want {
			t.Errorf("scripts allowed %v: ran %s", allowed, got)
		}
	}
}

// TestNoRouteOut: a script that is allowed to run reaches nothing but the content that the registry serves.
func TestNoRouteOut(t *testing.T) {
	b := newBench(t, Config{Scripts: true})
	secret := newRegistry(t) // another server of this machine
	script := `
const net = require('net'), http = require('http')
const [host, port] = process.argv[2].split(':')
const results = []
const done = text => { results.push(text); if (results.length === 7) require('fs').writeFileSync('result', results.sort().join('\n')) }
net.connect(port, host).on('error', e => done('direct ' + e.code)).on('connect', function () { this.destroy(); done('direct connected') })
const ask = (name, method, path) => http.request({ host: '127.0.0.1', port: 3128, method, path }).on('response', r => { r.resume(); done(name + ' ' + r.statusCode) }).on('connect', (r, socket) => { socket.destroy(); done(name + ' ' + r.statusCode) }).on('error', e => done(name + ' ' + e.code)).end()
ask('other', 'GET', 'http://' + process.argv[2] + '/')
ask('tunnel', 'CONNECT', process.argv[2])
ask('tunnel to the index', 'CONNECT', process.argv[3])
ask('publish', 'PUT', 'http://' + process.argv[3] + '/npm/eager')
require('dns').lookup('found.example', e => done('lookup ' + e.code))
http.request({ host: '127.0.0.1', port: 3128, method: 'CONNECT', path: process.argv[3] }).on('connect', (r, socket) => {
  socket.once('data', text => { done('publish in the tunnel ' + String(text).split(' ')[1]); socket.destroy() })
  socket.write('POST /npm/eager HTTP/1.1\r\nHost: ' + process.argv[3] + '\r\nContent-Length: 5\r\n\r\nfound')
}).end()
`
	outside := strings.TrimPrefix(secret.index.URL, "http://")
	b.node("eager", "1.0.0", map[string]string{"index.js": "module.exports = require('fs').readFileSync(__dirname + '/result', 'utf8')",
		"try.js": script},
		map[string]any{"scripts": map[string]string{"postinstall": "node try.js " + outside + " " + strings.TrimPrefix(b.index.URL, "http://")},
			"hasInstallScript": true})
	r := b.install(b.order("node", "eager"))
	want := "direct ECONNREFUSED\nlookup ENOTFOUND\nother 403\npublish 403\npublish in the tunnel 403\ntunnel 403\ntunnel to the index 200"
	if got := b.run("default", "node", "console.log(require('eager'))"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	refused := int64(0)
	for _, h := range r.Hosts {
		if !h.Allowed {
			refused += h.Count
			if h.Reason == "" {
				t.Errorf("no reason: %+v", h)
			}
		}
	}
	if refused < 5 || secret.requests() != "" || strings.Contains(b.requests(), "PUT ") || strings.Contains(b.requests(), "POST ") {
		t.Errorf("%d refused: %+v; the index was asked %v, and the other server %v", refused, r.Hosts, b.requests(), secret.requests())
	}
}

// TestCancelled: a caller that gives up leaves nothing, and the layer as it was.
func TestCancelled(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.install(b.order("python", "greet==1.0"))
	for i, session := range []string{"", "s1"} {
		if session != "" {
			if _, err := b.OpenSession(t.Context(), b.backend, "default", session, "python"); err != nil {
				t.Fatal(err)
			}
		}
		slow := fmt.Sprintf("slow%d", i)
		b.block(b.wheel(slow, "1.0", map[string]string{"slow.py": ""}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			hosttest.Until(t, "the file is asked for", func() bool { return strings.Contains(b.requests(), slow+"-1.0-py3") })
			cancel()
		}()
		o := b.order("python", slow, "greet==2.0")
		o.Session = session
		if _, err := b.Install(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		clean(t, b.cfg.Dir)
		v := b.view("default", session, "python")
		if got := b.says(b.start("python", v), "python", v, pyHello); got != "hello one, friend" {
			t.Errorf("got %q", got)
		}
	}
}
