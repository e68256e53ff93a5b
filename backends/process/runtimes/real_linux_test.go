package runtimes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pythons returns this machine's interpreters, as FindRuntime finds them in different environments.
func pythons(t *testing.T) map[string]Env {
	out := map[string]Env{"as found": FromOS()}
	if isExecutable("/usr/bin/python3") {
		out["system"] = Env{Path: "/usr/bin:/bin", Home: os.Getenv("HOME"), Get: func(string) string { return "" }}
	}
	for name, env := range map[string]Env{"venv": FromOS(), "venv of the system's": out["system"]} {
		r, err := FindRuntime(context.Background(), "python", env)
		if err != nil {
			continue
		}
		dir := filepath.Join(t.TempDir(), "venv")
		if b, err := exec.Command(r.Argv0, "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
			t.Logf("%s -m venv: %v %s", r.Argv0, err, b)
			continue
		}
		env.Path = filepath.Join(dir, "bin") + ":" + env.Path
		out[name] = env
	}
	return out
}

// inside runs a program in a root that has only the system directories and the paths in r.
func inside(t *testing.T, r Runtime, args ...string) string {
	t.Helper()
	script := `set -e
root=$1; shift
mount -t tmpfs none "$root"
for d in /proc /usr /bin /sbin /lib /lib32 /lib64 /libx32; do
  if [ -L $d ]; then cp -P $d "$root$d"
  elif [ -d $d ]; then mkdir -p "$root$d"; mount --rbind $d "$root$d"; fi
done
while [ "$1" != -- ]; do
  case $1 in
    *=*) mkdir -p "$root$(dirname "${1%%=*}")"; ln -s "${1#*=}" "$root${1%%=*}" ;;
    *) mkdir -p "$root$1"; mount --bind "$1" "$root$1" ;;
  esac
  shift
done
shift
PATH=$PATH:/usr/sbin:/sbin exec chroot "$root" "$@"
`
	var need []string
	need = append(need, r.Prefixes...)
	for link, target := range r.Links {
		need = append(need, link+"="+target)
	}
	argv := append([]string{"--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", t.TempDir()}, need...)
	argv = append(append(append(argv, "--"), "/usr/bin/env", "-i",
		"PATH="+strings.Join(append(r.PathDirs, SystemPath), ":")), args...)
	b, err := exec.Command("unshare", argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return strings.TrimSpace(string(b))
}

func needUnshare(t *testing.T) {
	t.Helper()
	if b, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("unshare with user namespaces: %v %s", err, b)
	}
}

// TestPrefixesAreEnough checks that the paths of FindRuntime suffice to start and to import compiled modules, and
// that no others are visible.
func TestPrefixesAreEnough(t *testing.T) {
	needUnshare(t)
	for name, env := range pythons(t) {
		t.Run(name, func(t *testing.T) {
			r, err := FindRuntime(context.Background(), "python", env)
			if err != nil {
				t.Skip(err)
			}
			checkRuntime(t, env, r)
			t.Logf("%+v", r)
			code := "import ctypes, ssl, hashlib, sys, subprocess; print(sys.executable, sys.prefix, " +
				"subprocess.run([sys.executable, '-c', 'import sys; print(sys.prefix)'], capture_output=True, text=True, check=True).stdout)"
			out := strings.Fields(inside(t, r, r.Argv0, "-c", code))
			if len(out) != 3 || out[0] != r.Argv0 || out[1] != out[2] {
				t.Errorf("got %q", out)
			}
			if strings.HasPrefix(name, "venv") && out[1] != filepath.Dir(filepath.Dir(r.Argv0)) {
				t.Errorf("prefix %s is not the environment's", out[1])
			}
			// The name alone selects the same interpreter.
			if got := inside(t, r, "python3", "-c", "import sys; print(sys.prefix)"); got != out[1] {
				t.Errorf("python3 on PATH has prefix %s, want %s", got, out[1])
			}
		})
	}
	t.Run("node", func(t *testing.T) {
		r, err := FindRuntime(context.Background(), "node", FromOS())
		if err != nil {
			t.Skip(err)
		}
		if got := inside(t, r, "node", "-p", "process.execPath"); got != r.Path {
			t.Errorf("got %q, want %q", got, r.Path)
		}
	})
	t.Run("shell", func(t *testing.T) {
		r, err := FindRuntime(context.Background(), "shell", FromOS())
		if err != nil {
			t.Fatal(err)
		}
		if got := inside(t, r, r.Argv0, "-c", "echo hello"); got != "hello" {
			t.Errorf("got %q", got)
		}
	})
}

// TestLibrariesBesideTheProgram has a libpython in a directory that only RUNPATH names.
func TestLibrariesBesideTheProgram(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: ", err)
	}
	h := newHost(t)
	lib, prog := h.file("build/lib.c", "int answer(void){return 42;}", 0o644),
		h.file("build/prog.c", "int answer(void);int main(void){return answer()!=42;}", 0o644)
	h.mkdir("home/u/libs")
	h.mkdir("opt/py/bin")
	for _, args := range [][]string{
		{"-shared", "-o", h.path("home/u/libs/libpython3.so"), lib},
		{"-o", h.path("opt/py/bin/python3"), prog, "-L" + h.path("home/u/libs"), "-l:libpython3.so",
			"-Wl,-rpath," + h.path("home/u") + ":$ORIGIN/../../../home/u/libs"},
	} {
		if b, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, b)
		}
	}
	h.onPath("opt/py/bin")
	h.checkFound(t, "python", found{Path: "opt/py/bin/python3", Argv0: "opt/py/bin/python3",
		Prefixes: []string{"home/u/libs", "opt/py"}, PathDirs: []string{"opt/py/bin"}})
	needUnshare(t)
	r, err := FindRuntime(context.Background(), "python", h.env)
	if err != nil {
		t.Fatal(err)
	}
	inside(t, r, "python3")
}

func TestVersionsOfThisMachine(t *testing.T) {
	for _, name := range []string{"python", "node", "shell", "r"} {
		r, err := FindRuntime(context.Background(), name, FromOS())
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		v, err := QueryVersion(context.Background(), r)
		t.Logf("%s %q: %+v %v", name, v, r, err)
		if err != nil || v == "" && filepath.Base(r.Path) != "dash" {
			t.Errorf("%s: version %q, %v", name, v, err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, name := range []string{"python", "node", "shell", "r"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := FindRuntime(b.Context(), name, FromOS()); err != nil {
					b.Skip(err)
				}
			}
		})
	}
}
