package runtimes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// pyenvShim is a script that would give a wrong answer if it were executed.
const pyenvShim = "exec pyenv exec \"${0##*/}\" \"$@\"\n"

func TestPyenv(t *testing.T) {
	cases := []struct {
		name string
		variable,
		project, local, global string // PYENV_VERSION and version files; "" is no file
		want string // version, or "system"
		why  string
	}{
		{"global", "", "", "", "3.11.7\n", "3.11.7", ".pyenv/version"},
		{"local wins", "", "", "3.12.1\n", "3.11.7\n", "3.12.1", "sub/.python-version"},
		{"directory above", "", "3.12.1\n", "", "3.11.7\n", "3.12.1", "project/.python-version"},
		{"variable wins", "3.9.18", "", "3.12.1", "3.11.7", "3.9.18", "PYENV_VERSION"},
		{"prefix means newest", "3", "", "", "", "3.12.1", "PYENV_VERSION"},
		{"minor", "3.9", "", "", "", "3.9.18", "PYENV_VERSION"},
		{"explicit python-", "python-3.9.18", "", "", "", "3.9.18", "PYENV_VERSION"},
		{"several", "", "", "", "# ours\n2.7.18\n3.9.18 3.11.7\n", "3.9.18", ".pyenv/version"},
		{"system", "system", "", "", "3.11.7", "system", "chooses no version"},
		{"no file at all", "", "", "", "", "system", "chooses no version"},
		{"not installed", "3.99", "", "", "3.11.7", "system", "no version 3.99"},
		{"a path out", "", "", "../../../../evil\n", "", "system", "no version ../../../../evil"},
		{"an absolute path", "/evil", "", "", "", "system", "no version /evil"},
		{"carriage return", "", "", "3.12.1\r\n", "", "3.12.1", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			root := "home/u/.pyenv/"
			h.script(root+"shims/python3", pyenvShim)
			for _, v := range []string{"3.9.18", "3.11.7", "3.12.1", "3.13.0rc1"} {
				h.program(root + "versions/" + v + "/bin/python3")
			}
			h.program(root + "versions/2.7.18/bin/python2")
			h.program("evil/bin/python3")
			h.program("system/bin/python3")
			for file, text := range map[string]string{
				"home/u/project/.python-version": c.project, "home/u/project/sub/.python-version": c.local, root + "version": c.global} {
				if text != "" {
					h.file(file, text, 0o644)
				}
			}
			h.vars["PYENV_VERSION"] = c.variable
			h.onPath(root+"shims", "system/bin")
			prefix := root + "versions/" + c.want
			if c.want == "system" {
				prefix = "system"
			}
			h.want(t, "python", found{Path: prefix + "/bin/python3", Argv0: prefix + "/bin/python3", Why: c.why,
				Prefixes: []string{prefix}, PathDirs: []string{prefix + "/bin"}})
		})
	}
}

// TestManyVersions has a project choose more versions than anybody has, none of which is installed.
func TestManyVersions(t *testing.T) {
	h := newHost(t)
	root := "home/u/.pyenv/"
	h.script(root+"shims/python3", pyenvShim)
	h.program(root + "versions/3.12.1/bin/python3")
	h.program("system/bin/python3")
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, "4.%d\n", i)
	}
	h.file("home/u/project/.python-version", many.String(), 0o644)
	h.onPath(root+"shims", "system/bin")
	r, err := Find(t.Context(), "python", h.env)
	if err != nil || !strings.HasSuffix(r.Path, "system/bin/python3") {
		t.Fatalf("found %+v, %v; want the system's", r, err)
	}
	if size := len(r.Why); size > 64<<10 {
		t.Errorf("the reason has %d bytes", size)
	}
}

// pyenv-virtualenv makes versions/NAME a link to versions/3.11.7/envs/NAME.
func TestPyenvVirtualenv(t *testing.T) {
	h := newHost(t)
	root := "home/u/.pyenv/"
	h.script(root+"shims/python3", pyenvShim)
	h.program(root + "versions/3.11.7/bin/python3.11")
	h.link(root+"versions/3.11.7/bin/python3", "python3.11")
	h.link(root+"versions/3.11.7/envs/app/bin/python", h.path(root+"versions/3.11.7/bin/python3.11"))
	h.link(root+"versions/3.11.7/envs/app/bin/python3", "python")
	h.file(root+"versions/3.11.7/envs/app/pyvenv.cfg", "home = "+h.path(root+"versions/3.11.7/bin")+"\n", 0o644)
	h.link(root+"versions/app", h.path(root+"versions/3.11.7/envs/app"))
	h.file(root+"version", "app\n", 0o644)
	h.onPath(root + "shims")
	h.want(t, "python", found{Path: root + "versions/3.11.7/bin/python3.11", Argv0: root + "versions/app/bin/python3",
		Why: "pyenv app", Prefixes: []string{root + "versions/3.11.7", root + "versions/app"},
		PathDirs: []string{root + "versions/app/bin"}})
}

func TestNodeManagers(t *testing.T) {
	node := func(dir string) found {
		return found{Path: dir + "/bin/node", Argv0: dir + "/bin/node",
			Prefixes: []string{dir}, PathDirs: []string{dir + "/bin"}}
	}
	t.Run("nvm on PATH", func(t *testing.T) {
		h := newHost(t)
		h.program("home/u/.nvm/versions/node/v20.1.0/bin/node")
		h.program("home/u/.nvm/versions/node/v22.3.0/bin/node")
		h.onPath("home/u/.nvm/versions/node/v20.1.0/bin")
		h.want(t, "node", node("home/u/.nvm/versions/node/v20.1.0"))
	})
	t.Run("nvm in a shell that did not load it", func(t *testing.T) {
		h := newHost(t)
		h.program("home/u/.nvm/versions/node/v20.9.0/bin/node")
		h.program("home/u/.nvm/versions/node/v20.10.0/bin/node")
		h.program("home/u/.nvm/versions/node/v22.3.0/bin/node")
		h.file("home/u/.nvm/alias/default", "lts/iron\n", 0o644)
		h.file("home/u/.nvm/alias/lts/iron", "v20.9.0\n", 0o644)
		h.want(t, "node", node("home/u/.nvm/versions/node/v20.9.0"))
		h.file("home/u/.nvm/alias/default", "20\n", 0o644)
		h.want(t, "node", node("home/u/.nvm/versions/node/v20.10.0"))
		h.file("home/u/.nvm/alias/default", "node\n", 0o644)
		h.want(t, "node", node("home/u/.nvm/versions/node/v22.3.0"))
		h.file("home/u/.nvm/alias/default", "../../x\n", 0o644)
		h.want(t, "node", node("home/u/.nvm/versions/node/v22.3.0"))
	})
	t.Run("fnm", func(t *testing.T) {
		h := newHost(t)
		real := "home/u/.local/share/fnm/node-versions/v20.1.0/installation"
		h.program(real + "/bin/node")
		h.link("run/fnm_multishells/1_2", h.path(real))
		h.onPath("run/fnm_multishells/1_2/bin")
		h.want(t, "node", found{Path: real + "/bin/node", Argv0: "run/fnm_multishells/1_2/bin/node",
			Prefixes: []string{real, "run/fnm_multishells/1_2"}, PathDirs: []string{"run/fnm_multishells/1_2/bin"}})
	})
	t.Run("volta", func(t *testing.T) {
		h := newHost(t)
		h.program("home/u/.volta/bin/volta-shim")
		h.link("home/u/.volta/bin/node", "volta-shim")
		h.program("home/u/.volta/tools/image/node/20.11.0/bin/node")
		h.program("home/u/.volta/tools/image/node/18.2.0/bin/node")
		h.file("home/u/.volta/tools/user/platform.json", `{"node":{"runtime":"20.11.0","npm":null}}`, 0o644)
		h.onPath("home/u/.volta/bin")
		h.want(t, "node", node("home/u/.volta/tools/image/node/20.11.0"))
		h.file("home/u/project/package.json", `{"name":"x","volta":{"node":"18.2.0"}}`, 0o644)
		h.want(t, "node", node("home/u/.volta/tools/image/node/18.2.0"))
	})
	t.Run("nodenv", func(t *testing.T) {
		h := newHost(t)
		h.script("home/u/.nodenv/shims/node", "exec \"/home/u/.nodenv/libexec/nodenv\" exec node\n")
		h.program("home/u/.nodenv/versions/20.1.0/bin/node")
		h.file("home/u/.nodenv/version", "20.1.0", 0o644)
		h.onPath("home/u/.nodenv/shims")
		h.want(t, "node", node("home/u/.nodenv/versions/20.1.0"))
	})
	t.Run("asdf", func(t *testing.T) {
		h := newHost(t)
		h.script("home/u/.asdf/shims/node", "# asdf-plugin: nodejs 20.1.0\nexec asdf exec \"node\" \"$@\"\n")
		h.program("home/u/.asdf/installs/nodejs/20.1.0/bin/node")
		h.program("home/u/.asdf/installs/nodejs/18.0.0/bin/node")
		h.file("home/u/.tool-versions", "python 3.1\nnodejs 20.1.0 # ours\n", 0o644)
		h.onPath("home/u/.asdf/shims")
		h.want(t, "node", node("home/u/.asdf/installs/nodejs/20.1.0"))
		h.file("home/u/project/.tool-versions", "nodejs 99.0 18.0.0\n", 0o644)
		h.want(t, "node", node("home/u/.asdf/installs/nodejs/18.0.0"))
		h.vars["ASDF_NODEJS_VERSION"] = "20.1.0"
		h.want(t, "node", node("home/u/.asdf/installs/nodejs/20.1.0"))
	})
	t.Run("mise", func(t *testing.T) {
		h := newHost(t)
		h.program("home/u/.local/bin/mise")
		h.link("home/u/.local/share/mise/shims/node", h.path("home/u/.local/bin/mise"))
		h.program("home/u/.local/share/mise/installs/node/20.1.0/bin/node")
		h.program("home/u/.local/share/mise/installs/node/22.4.0/bin/node")
		h.file("home/u/.config/mise/config.toml", "[env]\nnode = \"1\"\n[tools]\nnode = \"22\"\n", 0o644)
		h.onPath("home/u/.local/share/mise/shims")
		h.want(t, "node", node("home/u/.local/share/mise/installs/node/22.4.0"))
		h.file("home/u/project/mise.toml", "[tools]\n\"node\" = {version='20.1.0', x=1}\n", 0o644)
		h.want(t, "node", node("home/u/.local/share/mise/installs/node/20.1.0"))
		h.file("home/u/project/mise.toml", "[tools]\nnode = [\"22.4.0\", \"20\"]\n", 0o644)
		h.want(t, "node", node("home/u/.local/share/mise/installs/node/22.4.0"))
	})
	t.Run("a link in /usr/local/bin's place", func(t *testing.T) {
		h := newHost(t)
		h.program("opt/node-v20/bin/node")
		h.link("links/node", h.path("opt/node-v20/bin/node"))
		h.onPath("links")
		h.want(t, "node", node("opt/node-v20"))
	})
}

func TestSnapIsExplained(t *testing.T) {
	h := newHost(t)
	h.program("usr/bin/snap")
	h.link("snap/bin/node", h.path("usr/bin/snap"))
	h.program("next/bin/node")
	h.onPath("snap/bin", "next/bin")
	h.want(t, "node", found{Path: "next/bin/node", Argv0: "next/bin/node", Why: "snapd",
		Prefixes: []string{"next"}, PathDirs: []string{"next/bin"}})
}

// Version files come with projects, that is from anybody.
func TestStrangeVersionFiles(t *testing.T) {
	for name, make := range map[string]func(h *host, path string){
		"huge":       func(h *host, p string) { h.file(p, strings.Repeat("x", 10<<20), 0o644) },
		"directory":  func(h *host, p string) { h.mkdir(p) },
		"unreadable": func(h *host, p string) { h.file(p, "3.9", 0) },
		"binary":     func(h *host, p string) { h.file(p, "\x00\xff\xfe\n\x00", 0o644) },
		"fifo":       func(h *host, p string) { fifo(h.t, h.path(p)) },
		"loop":       func(h *host, p string) { h.link(p, ".python-version") },
		"endless":    func(h *host, p string) { h.link(p, "/dev/zero") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			root := "home/u/.pyenv/"
			h.script(root+"shims/python3", pyenvShim)
			h.program(root + "versions/3.11.7/bin/python3")
			h.file(root+"version", "3.11.7", 0o644)
			make(h, "home/u/project/sub/.python-version")
			h.program("next/bin/python3")
			h.onPath(root+"shims", "next/bin")
			if _, err := Find(context.Background(), "python", h.env); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCompareVersions(t *testing.T) {
	for _, c := range [][2]string{
		{"3.9.1", "3.12.0"}, {"v18.20.0", "v20.1.0"}, {"3.13.0rc1", "3.12.1"}, {"3.14-dev", "3.6.1"},
		{"cpython-3.9.1-linux-x86_64-gnu", "cpython-3.12.5-linux-x86_64-gnu"}, {"3.13.0t", "3.13.0"}, {"garbage", "3.1"},
	} {
		if compareVersions(c[0], c[1]) >= 0 || compareVersions(c[1], c[0]) <= 0 {
			t.Errorf("%s must come before %s", c[0], c[1])
		}
	}
}

func FuzzVersionFiles(f *testing.F) {
	f.Add("[tools]\nnode = \"1\"")
	f.Add("nodejs 1 2 # 3")
	f.Add("version = ''")
	f.Fuzz(func(t *testing.T, text string) {
		tomlTool(text, "node")
		for _, w := range words(text) {
			numbers(w[0])
			if name, ok := installed(os.TempDir(), w[0]); ok && strings.Contains(name, "..") && strings.HasPrefix(name, "..") {
				t.Errorf("%q leads to %q", w[0], name)
			}
		}
	})
}

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}
