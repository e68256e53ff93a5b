package runtimes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestPyenv queries this machine's pyenv about versions in a root of its own.
func TestPyenv(t *testing.T) {
	pyenv, err := exec.LookPath("pyenv")
	if err == nil {
		pyenv, err = filepath.EvalSymlinks(pyenv)
	}
	if err != nil {
		hosttest.SkipMissing(t, "pyenv", err.Error())
	}
	cases := []struct {
		name string
		variable,
		project, local, global string // PYENV_VERSION and version files; "" is no file
		want string // version, or "system"
	}{
		{"global", "", "", "", "3.11.7\n", "3.11.7"},
		{"local wins", "", "", "3.12.1\n", "3.11.7\n", "3.12.1"},
		{"directory above", "", "3.12.1\n", "", "3.11.7\n", "3.12.1"},
		{"variable wins", "3.9.18", "", "3.12.1", "3.11.7", "3.9.18"},
		{"minor", "3.9", "", "", "", "3.9.18"},
		{"several", "", "", "", "# ours\n2.7.18\n3.9.18\n3.11.7\n", "3.9.18"},
		{"system", "system", "", "", "3.11.7", "system"},
		{"no file at all", "", "", "", "", "system"},
		{"not installed", "3.99", "", "", "3.11.7", "system"},
		{"a path out", "", "", "../../../../evil\n", "", "system"},
		{"an absolute path", "/evil", "", "", "", "system"},
		{"a link's name", "", "", "app\n", "", "app"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			root := "home/u/.pyenv/"
			h.script(root+"shims/python3", "exec \""+pyenv+"\" exec \"${0##*/}\" \"$@\"\n")
			for _, v := range []string{"3.9.18", "3.11.7", "3.12.1"} {
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
			h.vars["PYENV_VERSION"], h.vars["PYENV_ROOT"] = c.variable, h.path(root)
			h.onPath(root+"shims", "system/bin", "/usr/bin", "/bin")
			prefix, prefixes := root+"versions/"+c.want, []string(nil)
			path := prefix
			switch c.want {
			case "system":
				prefix, path = "system", "system"
			case "app": // pyenv-virtualenv makes such links
				path = root + "versions/3.12.1"
				h.link(prefix, h.path(path))
				prefixes = []string{path, prefix}
			}
			if prefixes == nil {
				prefixes = []string{prefix}
			}
			why := "chosen by pyenv"
			if c.want == "system" {
				why = "pyenv"
			}
			h.checkFound(t, "python", found{Path: path + "/bin/python3", Argv0: prefix + "/bin/python3", Why: why, Prefixes: prefixes,
				PathDirs: []string{prefix + "/bin"}})
		})
	}
}

// addManager adds a fake version manager: it prints the content of the file answer, and counts its calls.
func (h *host) addManager(manager string) {
	h.script(manager, "[ \"$1\" = which ] || exit 3\necho x >>"+h.path("asked")+"\ncat "+h.path("answer")+"\n")
}

func (h *host) checkAsked(t *testing.T, want int) {
	t.Helper()
	b, _ := os.ReadFile(h.path("asked"))
	if n := strings.Count(string(b), "x"); n != want {
		t.Errorf("it was asked %d times, want %d", n, want)
	}
}

// TestManagers checks that each kind of shim is asked once until its inputs change.
func TestManagers(t *testing.T) {
	for _, tt := range []struct{ name, root, shims, version, file string }{
		{"mise", "home/u/.local/share/mise", "shims", "installs/node/22.4.0", ".config/mise/config.toml"},
		{"volta", "home/u/.volta", "bin", "tools/image/node/20.11.0", "project/package.json"},
		{"nodenv", "home/u/.nodenv", "shims", "versions/20.1.0", "project/sub/.node-version"},
		{"asdf", "home/u/.asdf", "shims", "installs/nodejs/20.1.0", ".tool-versions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			manager, shim := "home/u/tools/"+tt.name, filepath.Join(tt.root, tt.shims, "node")
			h.addManager(manager)
			switch tt.name {
			case "mise":
				h.link(shim, h.path(manager))
			case "volta":
				h.program("home/u/tools/volta-shim")
				h.link(shim, h.path("home/u/tools/volta-shim"))
			case "nodenv":
				h.script(shim, "exec \""+h.path(manager)+"\" exec \"node\" \"$@\"\n")
			case "asdf":
				h.script(shim, "# asdf-plugin: nodejs 20.1.0\nexec asdf exec \"node\" \"$@\"\n")
			}
			prefix := filepath.Join(tt.root, tt.version)
			h.file("answer", h.program(prefix+"/bin/node"), 0o644)
			h.program("next/bin/node")
			h.onPath(filepath.Dir(shim), "home/u/tools", "next/bin", "/usr/bin", "/bin")
			want := found{Path: prefix + "/bin/node", Argv0: prefix + "/bin/node", Why: "chosen by " + tt.name, Prefixes: []string{prefix},
				PathDirs: []string{prefix + "/bin"}}
			h.checkFound(t, "node", want)
			h.checkFound(t, "node", want)
			h.checkAsked(t, 1)
			h.file("home/u/"+tt.file, "something else", 0o644)
			h.checkFound(t, "node", want)
			h.checkAsked(t, 2)
			h.program(filepath.Join(filepath.Dir(prefix), "99/bin/node")) // "20" may now mean that one
			h.vars["VOLTA_HOME"] = h.path(tt.root)
			h.checkFound(t, "node", want)
			h.checkAsked(t, 3)
			next := found{Path: "next/bin/node", Argv0: "next/bin/node", Why: "not one of its own", Prefixes: []string{"next"},
				PathDirs: []string{"next/bin"}}
			evil := h.program("home/u/project/evil/bin/node")
			up, err := filepath.Rel(h.path(tt.root), evil)
			if err != nil {
				t.Fatal(err)
			}
			for _, answer := range []string{evil, h.path(tt.root) + "/" + up} {
				h.file("answer", answer, 0o644)
				h.file("home/u/project/.tool-versions", answer, 0o644)
				h.checkFound(t, "node", next)
			}
		})
	}
}

// TestShimAbove has a project inside the root of a shim's manager: the chosen program may be the project's own
// file.
func TestShimAbove(t *testing.T) {
	h := newHost(t)
	h.addManager("home/u/tools/mise")
	h.link("home/u/bin/node", h.path("home/u/tools/mise"))
	h.file("answer", h.program("home/u/project/evil/bin/node"), 0o644)
	h.program("next/bin/node")
	h.onPath("home/u/bin", "next/bin", "/usr/bin", "/bin")
	h.checkFound(t, "node", found{Path: "next/bin/node", Argv0: "next/bin/node", Why: "not one of its own", Prefixes: []string{"next"},
		PathDirs: []string{"next/bin"}})
}

// TestSearchedDirectories has a PATH that contains the project, in which a manager's script would search its tools.
func TestSearchedDirectories(t *testing.T) {
	h := newHost(t)
	h.addManager("home/u/tools/mise")
	h.link("home/u/.local/share/mise/shims/node", h.path("home/u/tools/mise"))
	prefix := "home/u/.local/share/mise/installs/node/22"
	h.file("answer", h.program(prefix+"/bin/node"), 0o644)
	h.script("home/u/project/sub/cat", "echo /evil >"+h.path("evil"))
	h.script("open/cat", "echo /evil >"+h.path("evil"))
	if err := os.Chmod(h.path("open"), 0o777); err != nil {
		t.Fatal(err)
	}
	h.env.Path = strings.Join([]string{".", "", h.path("open"), h.path("home/u/.local/share/mise/shims"), "/usr/bin", "/bin"}, ":")
	h.checkFound(t, "node", found{Path: prefix + "/bin/node", Argv0: prefix + "/bin/node", Why: "chosen by mise", Prefixes: []string{prefix},
		PathDirs: []string{prefix + "/bin"}})
	if _, err := os.Stat(h.path("evil")); err == nil {
		t.Error("a program of the project was run")
	}
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
		h.checkFound(t, "node", node("home/u/.nvm/versions/node/v20.1.0"))
	})
	t.Run("nvm in a shell that did not load it", func(t *testing.T) {
		h := newHost(t)
		h.program("home/u/.nvm/versions/node/v20.9.0/bin/node")
		h.program("home/u/.nvm/versions/node/v20.10.0/bin/node")
		h.program("home/u/.nvm/versions/node/v22.3.0/bin/node")
		h.file("home/u/.nvm/alias/default", "lts/iron\n", 0o644)
		h.file("home/u/.nvm/alias/lts/iron", "v20.9.0\n", 0o644)
		h.checkFound(t, "node", node("home/u/.nvm/versions/node/v20.9.0"))
		h.file("home/u/.nvm/alias/default", "20\n", 0o644)
		h.checkFound(t, "node", node("home/u/.nvm/versions/node/v20.10.0"))
		h.file("home/u/.nvm/alias/default", "node\n", 0o644)
		h.checkFound(t, "node", node("home/u/.nvm/versions/node/v22.3.0"))
		h.file("home/u/.nvm/alias/default", "../../x\n", 0o644)
		h.checkFound(t, "node", node("home/u/.nvm/versions/node/v22.3.0"))
	})
	t.Run("fnm", func(t *testing.T) {
		h := newHost(t)
		real := "home/u/.local/share/fnm/node-versions/v20.1.0/installation"
		h.program(real + "/bin/node")
		h.link("run/fnm_multishells/1_2", h.path(real))
		h.onPath("run/fnm_multishells/1_2/bin")
		h.checkFound(t, "node", found{Path: real + "/bin/node", Argv0: "run/fnm_multishells/1_2/bin/node",
			Prefixes: []string{real, "run/fnm_multishells/1_2"}, PathDirs: []string{"run/fnm_multishells/1_2/bin"}})
	})
	t.Run("a link in /usr/local/bin's place", func(t *testing.T) {
		h := newHost(t)
		h.program("opt/node-v20/bin/node")
		h.link("links/node", h.path("opt/node-v20/bin/node"))
		h.onPath("links")
		h.checkFound(t, "node", node("opt/node-v20"))
	})
}

func TestSnapIsExplained(t *testing.T) {
	h := newHost(t)
	h.program("usr/bin/snap")
	h.link("snap/bin/node", h.path("usr/bin/snap"))
	h.program("next/bin/node")
	h.onPath("snap/bin", "next/bin")
	h.checkFound(t, "node", found{Path: "next/bin/node", Argv0: "next/bin/node", Why: "snapd",
		Prefixes: []string{"next"}, PathDirs: []string{"next/bin"}})
}

// TestStrangeVersionFiles: version files come with projects, and can't be trusted.
func TestStrangeVersionFiles(t *testing.T) {
	for name, make := range map[string]func(h *host, path string){
		"directory": func(h *host, p string) { h.mkdir(p) },
		"fifo":      func(h *host, p string) { fifo(h.t, h.path(p)) },
		"endless":   func(h *host, p string) { h.link(p, "/dev/zero") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.addManager("home/u/tools/mise")
			h.link("home/u/.local/share/mise/shims/node", h.path("home/u/tools/mise"))
			h.file("answer", h.program("home/u/.local/share/mise/installs/node/22/bin/node"), 0o644)
			make(h, "home/u/project/.tool-versions")
			h.program("next/bin/node")
			h.onPath("home/u/.local/share/mise/shims", "next/bin", "/usr/bin", "/bin")
			h.checkFound(t, "node", found{Path: "next/bin/node", Argv0: "next/bin/node", Why: "is not a regular file", Prefixes: []string{"next"},
				PathDirs: []string{"next/bin"}})
			h.checkAsked(t, 0)
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

func fifo(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}
