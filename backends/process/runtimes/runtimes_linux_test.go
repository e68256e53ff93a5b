package runtimes

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// host is a made-up home directory and search path.
type host struct {
	t    *testing.T
	root string
	env  Env
	vars map[string]string
}

func newHost(t *testing.T) *host {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, root: root, vars: map[string]string{}}
	h.env = Env{
		Home: h.path("home/u"), Dir: h.path("home/u/project/sub"), Cache: h.path("cache"),
		Get: func(k string) string { return h.vars[k] },
	}
	h.mkdir("home/u/project/sub")
	return h
}

func (h *host) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(h.root, p)
}

func (h *host) mkdir(p string) string {
	h.t.Helper()
	if err := os.MkdirAll(h.path(p), 0o755); err != nil {
		h.t.Fatal(err)
	}
	return h.path(p)
}

func (h *host) file(p, text string, mode os.FileMode) string {
	h.t.Helper()
	h.mkdir(filepath.Dir(p))
	if err := os.WriteFile(h.path(p), []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(h.path(p), mode); err != nil {
		h.t.Fatal(err)
	}
	return h.path(p)
}

// program makes an executable that is not a script.
func (h *host) program(p string) string { return h.file(p, "\x7fELF, or so it says", 0o755) }

func (h *host) script(p, body string) string { return h.file(p, "#!/bin/sh\n"+body, 0o755) }

func (h *host) link(p, target string) string {
	h.t.Helper()
	h.mkdir(filepath.Dir(p))
	if err := os.Symlink(target, h.path(p)); err != nil {
		h.t.Fatal(err)
	}
	return h.path(p)
}

func (h *host) onPath(dirs ...string) {
	for i, d := range dirs {
		dirs[i] = h.path(d)
	}
	h.env.Path = strings.Join(dirs, ":")
}

// found is a case's expected result, with paths relative to the made-up host.
type found struct {
	Path, Argv0, Why   string
	Prefixes, PathDirs []string
	Links              map[string]string
}

func (h *host) checkFound(t *testing.T, language string, want found) {
	t.Helper()
	r, err := FindRuntime(context.Background(), language, h.env)
	if err != nil {
		t.Fatal(err)
	}
	rel := func(p string) string { return strings.TrimPrefix(p, h.root+"/") }
	got := found{Path: rel(r.Path), Argv0: rel(r.Argv0), Why: want.Why}
	for _, p := range r.Prefixes {
		got.Prefixes = append(got.Prefixes, rel(p))
	}
	for _, p := range r.PathDirs {
		got.PathDirs = append(got.PathDirs, rel(p))
	}
	for k, v := range r.Links {
		if got.Links == nil {
			got.Links = map[string]string{}
		}
		got.Links[rel(k)] = rel(v)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if !strings.Contains(r.Why, want.Why) {
		t.Errorf("why: %q lacks %q", r.Why, want.Why)
	}
	checkRuntime(t, h.env, r)
}

// checkRuntime checks the invariants of every result.
func checkRuntime(t *testing.T, env Env, r Runtime) {
	t.Helper()
	for _, p := range r.Prefixes {
		if !filepath.IsAbs(p) || paths.Within(env.Home, p) || p == "/" || isSystemPath(p) {
			t.Errorf("prefix %s must not be shown", p)
		}
		if !isDir(p) {
			t.Errorf("prefix %s is not a directory", p)
		}
	}
	if !isSystemPath(r.Path) && prefixOf(r, r.Path) == r.Path {
		t.Errorf("%s lies in no prefix of %v", r.Path, r.Prefixes)
	}
	if filepath.IsAbs(r.Argv0) {
		if real, err := filepath.EvalSymlinks(r.Argv0); err != nil || real != r.Path {
			t.Errorf("argv[0] %s leads to %s (%v), want %s", r.Argv0, real, err, r.Path)
		}
		if _, linked := r.Links[r.Argv0]; !linked && !isSystemPath(r.Argv0) && prefixOf(r, r.Argv0) == r.Argv0 {
			t.Errorf("argv[0] %s does not exist inside", r.Argv0)
		}
	}
}

func TestPathOrder(t *testing.T) {
	h := newHost(t)
	h.program("opt/new/bin/python3")
	h.program("opt/old/bin/python3")
	h.program("opt/older/bin/python")
	h.onPath("missing", "opt/older/bin", "opt/new/bin", "opt/old/bin")
	h.checkFound(t, "python", found{Path: "opt/new/bin/python3", Argv0: "opt/new/bin/python3", Why: "on PATH",
		Prefixes: []string{"opt/new"}, PathDirs: []string{"opt/new/bin"}})
}

func TestUnsafePathEntriesArePassedOver(t *testing.T) {
	h := newHost(t)
	h.program("drop/python3")
	if err := os.Chmod(h.path("drop"), 0o1777); err != nil {
		t.Fatal(err)
	}
	h.program("home/u/project/sub/python3")
	h.program("loose/bin/python3")
	if err := os.Chmod(h.path("loose/bin/python3"), 0o777); err != nil {
		t.Fatal(err)
	}
	h.program("good/bin/python3")
	t.Chdir(h.env.Dir)
	h.env.Path = strings.Join([]string{"", ".", h.path("drop"), h.path("loose/bin"), h.path("good/bin")}, ":")
	r, err := FindRuntime(context.Background(), "python", h.env)
	if err != nil || r.Path != h.path("good/bin/python3") {
		t.Fatalf("got %q, %v", r.Path, err)
	}
	for _, why := range []string{"relative", h.path("drop") + ": writable by everybody", h.path("loose/bin/python3") + ": writable"} {
		if !strings.Contains(r.Why, why) {
			t.Errorf("why %q lacks %q", r.Why, why)
		}
	}
}

// TestLinkToLooseProgram: a link in a safe directory does not make its world-writable target safe.
func TestLinkToLooseProgram(t *testing.T) {
	h := newHost(t)
	h.file("elsewhere/bin/x", "\x7fELF", 0o757)
	h.link("good/bin/node", h.path("elsewhere/bin/x"))
	h.program("next/bin/node")
	h.onPath("good/bin", "next/bin")
	h.checkFound(t, "node", found{Path: "next/bin/node", Argv0: "next/bin/node", Why: "writable by everybody",
		Prefixes: []string{"next"}, PathDirs: []string{"next/bin"}})
}

func TestNotPrograms(t *testing.T) {
	h := newHost(t)
	h.mkdir("a/bin/python3")
	h.file("b/bin/python3", "not executable", 0o644)
	h.link("c/bin/python3", "nowhere")
	h.link("d/bin/python3", "python3")
	h.program("e/bin/python3")
	h.onPath("a/bin", "b/bin", "c/bin", "d/bin", "e/bin")
	h.checkFound(t, "python", found{Path: "e/bin/python3", Argv0: "e/bin/python3",
		Prefixes: []string{"e"}, PathDirs: []string{"e/bin"}})
}

// TestHomeIsNeverVisible: the home directory contains keys and tokens, so no installation makes it visible.
func TestHomeIsNeverVisible(t *testing.T) {
	cases := map[string]struct {
		program string
		lib     string
		want    []string // nil: refused
	}{
		"prefix is home": {"home/u/bin/python3", "home/u/lib/python3.12", []string{"home/u/bin", "home/u/lib"}},
		"prefix is ~/.local": {"home/u/.local/bin/python3", "home/u/.local/lib/python3.12",
			[]string{"home/u/.local/bin", "home/u/.local/lib"}},
		"straight in home":            {"home/u/python3", "", nil},
		"straight above home":         {"home/python3", "", nil},
		"prefix above home":           {"home/bin/python3", "home/lib/python3.12", []string{"home/bin", "home/lib"}},
		"directory of its own":        {"home/u/py/bin/python3", "home/u/py/lib/python3.12", []string{"home/u/py"}},
		"built in a source directory": {"home/u/src/cpython/python3", "", []string{"home/u/src/cpython"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.program(c.program)
			if c.lib != "" {
				h.mkdir(c.lib)
			}
			h.onPath(filepath.Dir(c.program))
			r, err := FindRuntime(context.Background(), "python", h.env)
			if c.want == nil {
				if r.Path == h.path(c.program) || !strings.Contains(r.Why, "directory of its own") {
					t.Fatalf("got %q, why %q, %v", r.Path, r.Why, err)
				}
				return
			}
			for i := range c.want {
				c.want[i] = h.path(c.want[i])
			}
			if d := cmp.Diff(c.want, r.Prefixes); d != "" {
				t.Error(d, err)
			}
			checkRuntime(t, h.env, r)
		})
	}
}

// TestHomeBehindLink: a home directory that is reached through a link is still hidden.
func TestHomeBehindLink(t *testing.T) {
	h := newHost(t)
	h.program("home/u/bin/python3")
	h.mkdir("home/u/lib")
	h.link("users", "home")
	h.env.Home = h.path("users/u")
	h.onPath("home/u/bin")
	r, err := FindRuntime(context.Background(), "python", h.env)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{h.path("home/u/bin"), h.path("home/u/lib")}, r.Prefixes); d != "" {
		t.Error(d)
	}
}

func TestVirtualEnvironments(t *testing.T) {
	t.Run("linked to a uv-managed Python", func(t *testing.T) {
		h := newHost(t)
		base := "home/u/.local/share/uv/python/cpython-3.12.5-linux-x86_64-gnu"
		h.program(base + "/bin/python3.12")
		h.link(base+"/bin/python3", "python3.12")
		h.link("home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu", filepath.Base(base))
		h.link("home/u/.local/bin/python3.12", h.path("home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu/bin/python3.12"))
		h.link("home/u/project/.venv/bin/python", h.path("home/u/.local/bin/python3.12"))
		h.link("home/u/project/.venv/bin/python3", "python")
		h.file("home/u/project/.venv/pyvenv.cfg",
			"home = "+h.path("home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu/bin")+"\nuv = 0.9\nversion_info = 3.12.5\n", 0o644)
		h.onPath("home/u/project/.venv/bin")
		h.checkFound(t, "python", found{
			Path: base + "/bin/python3.12", Argv0: "home/u/project/.venv/bin/python3", Why: "virtual environment",
			Prefixes: []string{
				"home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu", base, "home/u/project/.venv"},
			PathDirs: []string{"home/u/project/.venv/bin"},
			Links:    map[string]string{"home/u/.local/bin/python3.12": "home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu/bin/python3.12"},
		})
	})
	t.Run("copied", func(t *testing.T) {
		h := newHost(t)
		h.program("opt/py/bin/python3")
		h.program("v/bin/python3")
		h.file("v/pyvenv.cfg", "home = "+h.path("opt/py/bin")+"\nversion = 3.13.1\n", 0o644)
		h.onPath("v/bin")
		h.checkFound(t, "python", found{Path: "v/bin/python3", Argv0: "v/bin/python3",
			Prefixes: []string{"opt/py", "v"}, PathDirs: []string{"v/bin"}})
	})
	t.Run("VIRTUAL_ENV without PATH", func(t *testing.T) {
		h := newHost(t)
		h.link("v/bin/python3", "/usr/bin/env") // represents a system Python
		h.file("v/pyvenv.cfg", "home = /usr/bin\n", 0o644)
		h.program("other/bin/python3")
		h.onPath("other/bin")
		h.vars["VIRTUAL_ENV"] = h.path("v")
		real, err := filepath.EvalSymlinks("/usr/bin/env")
		if err != nil {
			t.Skip(err)
		}
		h.checkFound(t, "python", found{Path: real, Argv0: "v/bin/python3", Why: "VIRTUAL_ENV",
			Prefixes: []string{"v"}, PathDirs: []string{"v/bin"}})
	})
	t.Run("the home directory itself", func(t *testing.T) {
		h := newHost(t)
		h.program("home/u/bin/python3")
		h.mkdir("home/u/lib")
		h.file("home/u/pyvenv.cfg", "home = /usr/bin\n", 0o644)
		h.onPath("home/u/bin")
		r, _ := FindRuntime(context.Background(), "python", h.env)
		if r.Path == h.path("home/u/bin/python3") || !strings.Contains(r.Why, "is the home directory") {
			t.Errorf("got %q, %q", r.Path, r.Why)
		}
	})
	t.Run("one that names the home directory as base", func(t *testing.T) {
		h := newHost(t)
		h.program("v/bin/python3")
		h.file("v/pyvenv.cfg", "home = "+h.env.Home+"\n", 0o644)
		h.onPath("v/bin")
		r, err := FindRuntime(context.Background(), "python", h.env)
		if err == nil {
			checkRuntime(t, h.env, r)
		}
		for _, p := range r.Prefixes {
			if paths.Within(h.env.Home, p) {
				t.Errorf("%s is shown", p)
			}
		}
	})
	t.Run("conda", func(t *testing.T) {
		h := newHost(t)
		h.program("home/u/miniconda3/envs/data/bin/python3.12")
		h.link("home/u/miniconda3/envs/data/bin/python3", "python3.12")
		h.mkdir("home/u/miniconda3/envs/data/conda-meta")
		h.onPath("home/u/miniconda3/envs/data/bin", "home/u/miniconda3/condabin")
		h.checkFound(t, "python", found{Path: "home/u/miniconda3/envs/data/bin/python3.12",
			Argv0:    "home/u/miniconda3/envs/data/bin/python3",
			Prefixes: []string{"home/u/miniconda3/envs/data"}, PathDirs: []string{"home/u/miniconda3/envs/data/bin"}})
	})
}

// TestUnknownWrapperIsAskedOnce: an unknown wrapper script is executed once, and its answer cached until the script
// changes.
func TestUnknownWrapperIsAskedOnce(t *testing.T) {
	h := newHost(t)
	target := h.program("opt/py/bin/python3")
	h.script("bin/python3", "echo x >>"+h.path("asked")+"; echo "+target)
	h.onPath("bin")
	want := found{Path: "opt/py/bin/python3", Argv0: "opt/py/bin/python3", Why: "behind the script",
		Prefixes: []string{"opt/py"}, PathDirs: []string{"opt/py/bin"}}
	asked := func() int {
		b, _ := os.ReadFile(h.path("asked"))
		return strings.Count(string(b), "x")
	}
	h.checkFound(t, "python", want)
	h.checkFound(t, "python", want)
	if n := asked(); n != 1 {
		t.Errorf("asked %d times, want 1", n)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(h.path("bin/python3"), later, later); err != nil {
		t.Fatal(err)
	}
	h.checkFound(t, "python", want)
	if n := asked(); n != 2 {
		t.Errorf("asked %d times after it changed, want 2", n)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if r, err := FindRuntime(context.Background(), "python", h.env); err == nil && r.Path == target {
		t.Error("a remembered program that is gone was returned")
	}
}

func TestLyingWrapper(t *testing.T) {
	for name, body := range map[string]string{
		"fails": "exit 3", "says nothing": "", "says a relative path": "echo python3",
		"says itself": `echo "$0"`, "hangs at the end of its output": "sleep 3 & echo /",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.script("bin/python3", body)
			h.program("next/bin/python3")
			h.onPath("bin", "next/bin")
			h.checkFound(t, "python", found{Path: "next/bin/python3", Argv0: "next/bin/python3", Why: h.path("bin/python3"),
				Prefixes: []string{"next"}, PathDirs: []string{"next/bin"}})
		})
	}
}

func TestPrivateInterpreter(t *testing.T) {
	for name, spoil := range map[string]string{"file": "py/bin/python3", "bin": "py/bin", "prefix": "py"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.program("py/bin/python3")
			if err := os.Chmod(h.path(spoil), 0o700); err != nil {
				t.Fatal(err)
			}
			h.onPath("py/bin")
			r, err := FindRuntime(context.Background(), "python", h.env)
			if err != nil || !r.Private || !strings.Contains(r.Why, "chmod o+rX "+h.path("py")) {
				t.Errorf("private %v, why %q, %v", r.Private, r.Why, err)
			}
		})
	}
	h := newHost(t)
	h.program("root/py/bin/python3")
	if err := os.Chmod(h.path("root"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.onPath("root/py/bin")
	if r, err := FindRuntime(context.Background(), "python", h.env); err != nil || r.Private {
		t.Errorf("a closed directory above the prefix: private %v, why %q, %v", r.Private, r.Why, err)
	}
}

func TestShellFallsBackToSh(t *testing.T) {
	h := newHost(t)
	h.program("opt/box/bin/busybox")
	h.link("tools/sh", h.path("opt/box/bin/busybox"))
	h.onPath("tools")
	h.checkFound(t, "shell", found{Path: "opt/box/bin/busybox", Argv0: "sh",
		Prefixes: []string{"opt/box"}})
}

func TestMissing(t *testing.T) {
	h := newHost(t)
	f := &finder{env: h.env}
	f.language, _ = languageOf("node")
	f.programs = []string{"no-such-program"}
	for c := range f.candidates() {
		t.Errorf("candidate %v", c)
	}
	r, err := FindRuntime(context.Background(), "cobol", h.env)
	var m *MissingError
	if !errors.As(err, &m) || r.Path != "" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestFindIsRepeatable(t *testing.T) {
	a, errA := FindRuntime(context.Background(), "python", FromOS())
	b, errB := FindRuntime(context.Background(), "python", FromOS())
	if errA != nil || errB != nil {
		t.Skip("no python here: ", errA)
	}
	if a.Path != b.Path || !maps.Equal(a.Links, b.Links) {
		t.Errorf("got %v, then %v", a, b)
	}
}
