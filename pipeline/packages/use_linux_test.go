package packages

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// TestReadOnly: no run changes the packages that others import.
func TestReadOnly(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.install(b.order("python", "greet"))
	b.install(b.order("node", "greet"))
	for language, code := range map[string]string{
		"python": "import os\nfor f in (lambda: open('/packages/greet/__init__.py', 'a'), lambda: open('/packages/x', 'w'), lambda: " +
			"os.chmod('/packages', 0o777), lambda: os.remove('/packages/tone.py')):\n  try: f(); print('done')\n  except OSError as e: print(e.errno in (30, 1, 13))",
		"node": "const fs = require('fs'); for (const f of [() => fs.appendFileSync('/node_modules/greet/index.js', 'x'), () => " +
			"fs.writeFileSync('/node_modules/x', ''), () => fs.chmodSync('/node_modules', 0o777), () => fs.rmSync('/node_modules/tone/index.js')]) try { f(); console.log('done') } catch (e) { console.log(['EROFS', 'EPERM', 'EACCES'].includes(e.code) ? 'True' : e.code) }",
	} {
		if got := b.run("default", language, code); got != "True\nTrue\nTrue\nTrue" {
			t.Errorf("%s: got %q", language, got)
		}
	}
}

// TestConcurrent: installs of a namespace come one after the other, and none is lost.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, Config{Dir: dir})
	other := benchWith(t, Config{Dir: dir}, b.registry) // as another server does
	names := []string{"one", "two", "three"}
	for _, n := range names {
		b.wheel(n, "1.0", map[string]string{n + ".py": "x = 1\n"})
	}
	var all sync.WaitGroup
	for i, n := range names {
		all.Go(func() {
			s := []*bench{b, other}[i%2]
			if r, err := s.Install(t.Context(), s.order("python", n)); err != nil || r.ExitCode != 0 {
				t.Errorf("%s: %v %s", n, err, r.Stderr)
			}
		})
	}
	all.Wait()
	if got := b.run("default", "python", "import one, two, three; print('all')"); got != "all" {
		t.Errorf("got %q", got)
	}
	clean(t, dir)
}

// TestNamespaces see nothing of each other.
func TestNamespaces(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	o := b.order("python", "greet==1.0")
	o.Namespace = "team"
	b.install(o)
	for _, ns := range []string{"default", "Team", "tea", "team2"} {
		if got := b.run(ns, "python", pyHello); !strings.Contains(got, "ModuleNotFoundError") {
			t.Errorf("%s: got %q", ns, got)
		}
	}
	if got := b.run("team", "python", pyHello); got != "hello one, friend" {
		t.Errorf("got %q", got)
	}
	if got := b.run("team", "python", "import os; print(os.listdir('/packages'), os.path.exists('/packages/..' + '/namespaces'))"); !strings.HasSuffix(got, "False") {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"", ".", "..", "../team", "a/b", "/etc", "a\x00b", strings.Repeat("x", 65), "..\\x"} {
		o.Namespace = name
		if _, err := b.Install(t.Context(), o); err == nil && name != "." && name != ".." {
			t.Errorf("install into %q: no error", name)
		}
		if v, err := b.View(t.Context(), b.backend, name, "", "python"); len(v.Mounts) > 0 && name != "." && name != ".." {
			t.Errorf("view of %q: %v %v", name, v, err)
		}
		o := o
		o.Namespace, o.Session = "team", name
		if name != "" {
			if _, err := b.Install(t.Context(), o); err == nil {
				t.Errorf("install into session %q: no error", name)
			}
		}
	}
	above, err := os.ReadDir(filepath.Dir(b.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range above {
		if strings.HasPrefix(e.Name(), "python") {
			t.Errorf("%s is beside the store", e.Name())
		}
	}
}

// BenchmarkView measures the cost of packages for a run.
func BenchmarkView(t *testing.B) {
	b := process.New(process.Config{StateDir: t.TempDir()})
	defer b.Close()
	s, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in, err := s.layersOf("default", "python9.9")
	if err != nil {
		t.Fatal(err)
	}
	l, held, err := in.add(".")
	if err == nil {
		_, err = in.publish(l)
	}
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	s.kinds.Store("process python", "python9.9")
	for t.Loop() {
		v, err := s.View(t.Context(), b, "default", "", "python")
		if err != nil {
			t.Fatal(err)
		}
		v.Release()
	}
}
