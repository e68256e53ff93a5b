package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
)

// fromTemplate starts two shell sandboxes from one template.
func fromTemplate(t *testing.T) (one, other *Sandbox) {
	t.Helper()
	b := newBackend(t, Config{})
	set := templates.New[*Template](templates.Limits{})
	t.Cleanup(set.Close)
	start := func() *Sandbox {
		s, err := b.NewSandbox(t.Context(), backends.Spec{ID: "template", Language: "shell", Keep: true, Require: backends.ContainmentLayers})
		if err != nil {
			t.Fatal(err)
		}
		err = s.LaunchOrClose(t.Context(), func(ctx context.Context, s *Sandbox) (*Init, error) {
			n, err := set.Acquire(ctx, "", func(ctx context.Context) (*Template, error) { return b.StartTemplate(ctx, s.runtime) })
			if err != nil {
				return nil, err
			}
			return b.SpawnByTemplate(ctx, n)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	return start(), start()
}

func runScript(t *testing.T, s *Sandbox, script string) string {
	t.Helper()
	var out, errs bytes.Buffer
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", script}}, backends.Streams{Stdout: &out, Stderr: &errs})
	if err != nil || r.Ended != backends.EndedOK {
		t.Fatalf("%q: %+v %v %s", script, r, err, &errs)
	}
	return out.String()
}

// TestTemplateIsOutOfReach searches a template's sandbox for anything shared with the template and its other
// children.
func TestTemplateIsOutOfReach(t *testing.T) {
	sibling, s := fromTemplate(t)
	if sibling.template != s.template {
		t.Fatal("two templates for one runtime")
	}
	out := runScript(t, s, `shopt -s nullglob
cd /proc; echo pids [0-9]*
grep -c . /proc/net/dev
cat /proc/net/dev | grep lo: | tr -s ' '
for dir in / /etc /run /dev; do touch $dir/x 2>/dev/null && echo "$dir can be written"; done
ls /run/disk 2>/dev/null && echo "the disk is open"
ls -l /proc/self/fd | sed -n 's/.*-> //p' | grep -v -e '^pipe:' -e '^/proc' -e '^/dev/null'
exit 0`)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || lines[0] != "pids 1 2" || !strings.HasPrefix(strings.TrimSpace(lines[2]), "lo: 0 0 ") {
		t.Errorf("got %q, want two processes, a fresh loopback, and nothing that can be written", lines)
	}
	for _, name := range []string{"mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		ours := namespaceOf(t, s.pid, name)
		for who, pid := range map[string]int{"its template": s.template.pid, "its sibling": sibling.pid, "us": os.Getpid()} {
			if namespaceOf(t, pid, name) == ours {
				t.Errorf("namespace %s is shared with %s", name, who)
			}
		}
	}
}

func namespaceOf(t *testing.T, pid int, name string) string {
	t.Helper()
	if name == "pid" || name == "time" {
		name += "_for_children" // those of PID 1 itself are the same, and can be read of a process that is not dumpable
	}
	link, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/" + name)
	if err != nil && os.Geteuid() != 0 {
		t.Skip("only root can look into PID 1")
	}
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// TestTemplateRemembersThatItIsStale checks a stale template twice: the second caller must get the answer, too.
func TestTemplateRemembersThatItIsStale(t *testing.T) {
	s, _ := fromTemplate(t)
	n := s.template
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.states, n.checked = append(n.states, stateOf(file, os.Stat)), time.Time{}
	if !n.Good() {
		t.Error("nothing has changed, and it is not good")
	}
	if err := os.WriteFile(file, []byte("afterwards"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.checked = time.Time{}
	for i := range 2 {
		if n.Good() {
			t.Errorf("the host has changed, and it is good when asked for the %d. time", i+1)
		}
	}
}

// TestCoveredRuntime has a runtime in the host's /tmp, which a template's /tmp would cover.
func TestCoveredRuntime(t *testing.T) {
	b := newBackend(t, Config{})
	shell, err := b.runtime(t.Context(), "shell")
	if err != nil {
		t.Fatal(err)
	}
	shell.Prefixes = []string{t.TempDir()}
	if err := os.WriteFile(shell.Prefixes[0]+"/file", []byte("seen"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.found["shell"] = shell
	one, err := b.Start(t.Context(), backends.Spec{ID: "covered", Language: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if got := runScript(t, one.(*Sandbox), "cat "+shell.Prefixes[0]+"/file"); got != "seen" {
		t.Errorf("got %q", got)
	}
}

// TestQuietEnd checks which call waits for a sandbox's end: none if the program was alone; else Exec, until its
// leftover processes are dead.
func TestQuietEnd(t *testing.T) {
	for _, c := range []struct {
		name, script string
		quiet        bool
	}{
		{"alone", ":", true},
		{"a child that has ended", "sleep 0", true},
		{"a child that lives", "sleep 1000 &", false},
		{"a grandchild in a session of its own", "(setsid sleep 1000 >/dev/null 2>&1 &)", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t, Config{})
			one, err := b.Start(t.Context(), backends.Spec{ID: "quiet", Language: "shell"})
			if err != nil {
				t.Fatal(err)
			}
			defer one.Close()
			s := one.(*Sandbox)
			if !s.isQuiet() {
				t.Error("not quiet before it ran anything")
			}
			if r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", c.script}}, backends.Streams{}); err != nil ||
				r.Ended != backends.EndedOK {
				t.Fatalf("%+v %v", r, err)
			}
			if got := s.isQuiet(); got != c.quiet {
				t.Errorf("quiet: got %v, want %v", got, c.quiet)
			}
			if !c.quiet && s.alive() {
				t.Error("Exec returned before the kernel had ended all")
			}
			if _, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", ":"}}, backends.Streams{}); err == nil {
				t.Error("a second program ran where only one may")
			}
		})
	}
}

// TestHostsDevices tries to change the metadata of a host device node, from the program and by how we start it.
func TestHostsDevices(t *testing.T) {
	s, _ := fromTemplate(t)
	before, err := os.Stat("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	out := runScript(t, s, `ls -ln /dev/null | cut -d' ' -f3
for f in null zero full random urandom tty; do
	chmod 600 /dev/$f 2>/dev/null && echo "mode of $f"
	touch /dev/$f 2>/dev/null && echo "times of $f"
done
echo x >/dev/null && head -c 3 /dev/zero | wc -c`)
	if lines := strings.Fields(out); len(lines) != 2 || lines[0] == "1000" || lines[1] != "3" {
		t.Errorf("got %q, want devices that can be used and are not the program's", lines)
	}
	after, err := os.Stat("/dev/null")
	if err != nil || after.Mode() != before.Mode() || after.Sys().(*syscall.Stat_t).Uid >= 0x70000000 {
		t.Errorf("the host's /dev/null: was %v, is %v, of user %d; %v", before.Mode(), after.Mode(), after.Sys().(*syscall.Stat_t).Uid, err)
	}
}

// TestLostAndCancelled uses a template that once gave no answer, for a start that has ended: the error is the
// start's reason.
func TestLostAndCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	one := &Template{cloning: make(chan struct{}, 1), lost: os.ErrDeadlineExceeded}
	if _, _, err := one.clone(ctx, 0, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation", err)
	}
}

// TestCancelledInLine cancels a start that waits behind one without an answer.
func TestCancelledInLine(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	one := &Template{cloning: make(chan struct{}, 1)}
	one.cloning <- struct{}{}
	if _, _, err := one.clone(ctx, 0, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}
