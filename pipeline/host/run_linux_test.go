package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// sh runs a script by the shell, which no policy would allow, so that it can misbehave.
func sh(t *testing.T, ctx context.Context, script string, change func(*Run)) (End, string, string, error) {
	t.Helper()
	shell, err := (&Policy{}).FindProgram("sh")
	if err != nil {
		hosttest.SkipMissing(t, "shell", err.Error())
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	r := Run{Program: shell, Words: Words{"sh", "-c", script}, Directory: dir, Stdout: &out, Stderr: &errs,
		Env: (&Policy{}).Environment(nil, os.LookupEnv)}
	if change != nil {
		change(&r)
	}
	end, err := r.Exec(ctx)
	return end, out.String(), errs.String(), err
}

func TestRun(t *testing.T) {
	tests := []struct {
		name, script, stdout string
		exit                 int
		signal               string
	}{
		{"output", "echo a; echo b >&2", "a\n", 0, ""},
		{"an exit code", "exit 7", "", 7, ""},
		{"a signal", "kill -SEGV $$", "", 139, "SIGSEGV"},
		{"no input", "cat; echo end", "end\n", 0, ""},
		{"no terminal", "(: < /dev/tty) 2>/dev/null && echo terminal; tty -s || echo none", "none\n", 0, ""},
		{"no descriptors of ours", "ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 ", 0, ""}, // 3 is ls' own
		{"a session of its own", "test $(ps -o sid= -p $$) = $$ && echo own", "own\n", 0, ""},
		{"no new privileges", "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1\n", 0, ""},
		{"the umask", "umask", "0022\n", 0, ""},
		{"no core files", "ulimit -c", "0\n", 0, ""},
		{"SIGPIPE as usual", "yes | head -n 1", "y\n", 0, ""},
		{"its name", "echo $0", "sh\n", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			end, out, errs, err := sh(t, t.Context(), tt.script, nil)
			if err != nil || out != tt.stdout || end.Exit != tt.exit || end.Signal != tt.signal {
				t.Errorf("got %q, %q, %+v, %v; want %q, %d %s", out, errs, end, err, tt.stdout, tt.exit, tt.signal)
			}
		})
	}
}

func TestRunIn(t *testing.T) {
	_, out, _, err := sh(t, t.Context(), "cat; pwd", func(r *Run) { r.Stdin, r.Directory = strings.NewReader("in\n"), "/usr" })
	if err != nil || out != "in\n/usr\n" {
		t.Errorf("got %q, %v", out, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink("/etc", link))
	if _, out, _, err := sh(t, t.Context(), "pwd", func(r *Run) { r.Directory = link }); err == nil {
		t.Errorf("it ran in %q, behind a link that was none when it was decided", out)
	}
}

// TestEnvironment poisons ours: CVE-2026-22708.
func TestEnvironment(t *testing.T) {
	poison := []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONSTARTUP", "PERL5OPT", "GIT_EXTERNAL_DIFF",
		"GIT_SSH_COMMAND", "PAGER", "EDITOR",
		"PATH", "IFS", "SANDBOXMCP_SECRET_DEFAULT_X", "BASH_FUNC_ls%%", "PROMPT_COMMAND", "PYTHONWARNINGS", "BROWSER", "SSH_ASKPASS", "LESSOPEN",
		"TAR_OPTIONS", "RUBYOPT", "JAVA_TOOL_OPTIONS"}
	lookup := func(name string) (string, bool) { return "poison", true }
	env := strings.Join((&Policy{}).Environment(append(poison, "MY_OWN"), lookup), "\n")
	for _, name := range poison {
		if err := CheckEnvironment([]string{name}); err == nil {
			t.Errorf("%s can be passed on", name)
		}
		if strings.Contains("\n"+env, "\n"+name+"=poison") {
			t.Errorf("%s is passed on", name)
		}
	}
	if !strings.Contains(env, "MY_OWN=poison") {
		t.Errorf("what the operator passes on is not there: %s", env)
	}
	for _, name := range []string{"", "A=B", "A B", "*"} {
		if CheckEnvironment([]string{name}) == nil {
			t.Errorf("%q is the name of a variable", name)
		}
	}
}

// gone says whether there is no process of this id.
func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// escapes begin something that should be gone when the command is, and write its id to the file pid.
var escapes = []struct{ name, script string }{
	{"in the background", "sleep 300 & echo $! > pid"},
	{"in a session of its own", "setsid sh -c 'echo $$ > pid; exec sleep 300' & while ! test -s pid; do sleep 0.01; done"},
	{"a daemon", "setsid sh -c '(sh -c \"echo \\$\\$ > pid; exec sleep 300\" >/dev/null 2>&1 </dev/null &)' ; while ! test -s pid; do " +
		"sleep 0.01; done"},
	{"that ignores signals", "sh -c 'trap \"\" HUP INT TERM QUIT; echo $$ > pid; while :; do sleep 300; done' & while ! test -s pid; do " +
		"sleep 0.01; done"},
	{"that is stopped", "sh -c 'echo $$ > pid; kill -STOP $$; sleep 300' & while ! test -s pid; do sleep 0.01; done"},
}

// TestFirstThread has a process left whose first thread has ended: /proc says that it is a zombie, and it is not.
func TestFirstThread(t *testing.T) {
	hosttest.Program(t, "python3")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "left.py"), fmt.Appendf(nil, `import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
open("pid", "w").write(str(os.getpid()))
ctypes.CDLL(None).syscall(%d, 0)
`, syscall.SYS_EXIT), 0o600))
	end, _, errs, err := sh(t, t.Context(), `(setsid python3 left.py & ) >/dev/null
until test -s pid && grep -q '^State:.Z' /proc/$(cat pid)/status; do sleep 0.01; done`,
		func(r *Run) { r.Directory = dir })
	if err != nil || end.Exit != 0 || end.Killed == 0 {
		t.Errorf("got %+v, %q, %v; want it killed", end, errs, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "pid"))
	must(t, err)
	pid, err := strconv.Atoi(string(b))
	must(t, err)
	if !gone(pid) {
		syscall.Kill(pid, syscall.SIGKILL)
		t.Error("it is still there")
	}
}

func TestNothingStays(t *testing.T) {
	for _, tt := range escapes {
		for _, how := range []string{"ended", "killed"} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				dir, err := filepath.EvalSymlinks(t.TempDir())
				must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				script := tt.script
				if how == "killed" {
					script += "; echo ready; sleep 300"
				}
				end, out, errs, err := sh(t, ctx, script, func(r *Run) {
					r.Directory = dir
					if how == "killed" {
						r.Stdout = hang(cancel)
					}
				})
				if (err != nil) != (how == "killed") {
					t.Fatalf("got %+v, %q, %q, %v", end, out, errs, err)
				}
				b, err := os.ReadFile(filepath.Join(dir, "pid"))
				must(t, err)
				pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
				must(t, err)
				if !gone(pid) {
					syscall.Kill(pid, syscall.SIGKILL)
					t.Error("it is still there")
				}
				if how == "ended" && end.Killed == 0 {
					t.Error("nobody was told of it")
				}
			})
		}
	}
}

// hang is a writer that ends the command once it writes.
type hang func()

func (h hang) Write(b []byte) (int, error) {
	h()
	return len(b), nil
}

// TestForking has one that makes new processes as fast as it can.
func TestForking(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	_, _, _, err = sh(t, ctx, `f() { n=$1; test $n -gt 0 || exec sleep 300; f $((n-1)) & f $((n-1)) & wait; }; f 6 & sleep 0.05; echo ready; sleep 300`,
		func(r *Run) { r.Directory, r.Stdout = dir, hang(cancel) })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	nobodyIn(t, dir)
}

// nobodyIn fails where a process is in a directory of ours.
func nobodyIn(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, e := range entries {
		if at, err := os.Readlink("/proc/" + e.Name() + "/cwd"); err == nil && at == dir {
			pid, _ := strconv.Atoi(e.Name())
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Errorf("process %s is left", e.Name())
		}
	}
}

func TestChangedProgram(t *testing.T) {
	dir := ownDirectory(t)
	write(t, filepath.Join(dir, "tool"), 0o755)
	p, err := NewPolicy(Rules{Path: []string{dir}})
	must(t, err)
	prog, err := p.FindProgram("tool")
	must(t, err)
	write(t, filepath.Join(dir, "other"), 0o755)
	must(t, os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "tool")))
	if _, err := (Run{Program: prog, Words: Words{"tool"}, Directory: "/"}).Exec(t.Context()); err == nil {
		t.Error("another program ran than was decided")
	}
}

// cages are the ways in which bounds are kept.
func cages(t *testing.T, f func(t *testing.T, c *Cage)) {
	t.Run("watched", func(t *testing.T) { f(t, nil) })
	t.Run("cgroup", func(t *testing.T) {
		c := NewCage(true)
		defer c.Close()
		if c.groups.FindBase(); !c.groups.HasBase() {
			hosttest.SkipMissing(t, "cgroup", c.groups.Why)
		}
		f(t, c)
	})
}

func TestBounds(t *testing.T) {
	tests := []struct {
		name, script string
		want         func(End) bool
	}{
		{"within them", "echo x | cat >/dev/null; head -c 20000000 /dev/zero | tail -c 20000000 >/dev/null",
			func(e End) bool { return e.Exit == 0 && e.Limit == "" && e.Forks == 0 }},
		// tail may be told that there is none
		{"memory of one", "head -c 400000000 /dev/zero | tail -c 400000000", func(e End) bool {
			return e.Limit == "ram" || e.Forks == 0 &&
				e.Exit != 0
		}},
		{"memory of many", "for i in 1 2 3 4 5 6; do (head -c 40000000 /dev/zero; sleep 300) | tail -c 40000000 & done; wait",
			func(e End) bool { return e.Limit == "ram" }},
		{"processes", "i=0; while test $i -lt 100; do sleep 300 & i=$((i+1)); done; wait; exit 3",
			func(e End) bool { return e.Limit == "processes" || e.Forks > 0 && e.Exit != 3 }},
		{"its watcher killed", "setsid sleep 300 & kill -9 $PPID; sleep 300", func(e End) bool { return true }},
	}
	cages(t, func(t *testing.T, c *Cage) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				if c == nil && tt.name == "its watcher killed" {
					t.Skip("only a cgroup holds what is left then")
				}
				dir, err := filepath.EvalSymlinks(t.TempDir())
				must(t, err)
				end, _, errs, err := sh(t, t.Context(), tt.script, func(r *Run) {
					r.Bounds, r.Cage, r.Directory = launch.Bounds{RAM: 128 << 20, Processes: 40, CPU: 1}, c, dir
				})
				if (err != nil) != (tt.name == "its watcher killed") || !tt.want(end) || strings.HasPrefix(end.EnforcedBy, "cgroup") != (c != nil) {
					t.Errorf("got %+v, %q, %v", end, errs, err)
				}
				nobodyIn(t, dir)
			})
		}
	})
}

// TestTimeIsUp has one that makes new processes as fast as it can when its time is up, and not more of them than it
// may.
func TestTimeIsUp(t *testing.T) {
	cages(t, func(t *testing.T, c *Cage) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		dir, err := filepath.EvalSymlinks(t.TempDir())
		must(t, err)
		_, _, _, err = sh(t, ctx, `f() { while :; do (:) & wait; done; }; f & f & f & sleep 0.05; echo ready; wait`, func(r *Run) {
			r.Bounds, r.Cage, r.Directory, r.Stdout = launch.Bounds{RAM: 128 << 20, Processes: 40, CPU: 1}, c, dir, hang(cancel)
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		nobodyIn(t, dir)
	})
}
