package process

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// newImpatient returns a backend with short timeouts, for tests of a kernel that does not answer.
func newImpatient(t *testing.T, killTimeout time.Duration) *Backend {
	b := New(Config{StateDir: t.TempDir(), StartTimeout: 2 * time.Second, KillTimeout: killTimeout})
	t.Cleanup(func() { b.Close() })
	return b
}

// TestStuckLauncher stops the processes that fork sandboxes: a start fails with the name of the call that did not
// return. Sandboxes started before live on, and others start as soon as the launchers answer again.
func TestStuckLauncher(t *testing.T) {
	b := newImpatient(t, 10*time.Second) // a late start waits twice that for the call's name, which busy machines need
	spec := backends.Spec{ID: "stuck", Language: "shell", Keep: true,
		Mounts: []backends.Mount{{Host: "/usr", Inside: "/mnt/usr"}}} // not from a template
	before, err := b.Start(t.Context(), spec)
	if err != nil {
		hosttest.SkipMissing(t, "sandbox", err.Error())
	}
	defer before.Close()
	stopLaunchers(t, b)
	if s, err := b.Start(t.Context(), spec); err == nil {
		s.Close()
		t.Fatal("a sandbox started, though nothing could fork it")
	} else if !strings.Contains(err.Error(), "clone3 did not return in time") {
		t.Errorf("start: %v; want the call that did not return", err)
	}
	var out bytes.Buffer
	r, err := before.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "echo alive"}}, backends.Streams{Stdout: &out})
	if err != nil || out.String() != "alive\n" {
		t.Errorf("a sandbox from before: %v %+v %q", err, r, out.String())
	}
	after, err := b.Start(t.Context(), spec) // from a new launcher
	if err != nil {
		t.Fatalf("start after one failed: %v", err)
	}
	after.Close()
	stopLaunchers(t, b)
	stuck := len(b.launchers.Running())
	child, err := b.SpawnByLauncher(early{t.Context()}, b.Namespaces())
	if err == nil {
		child.Remove()
		t.Fatal("a second launcher was tried, though the first did not answer in time")
	}
	if now := len(b.launchers.Running()); now != stuck-1 {
		t.Errorf("%d launchers did not answer, want one: %v", stuck-now, err)
	}
}

// stopLaunchers stops the idle processes that fork sandboxes until the test ends.
func stopLaunchers(t *testing.T, b *Backend) {
	for _, one := range b.launchers.Running() {
		unix.Kill(one.pid, unix.SIGSTOP)
		t.Cleanup(func() { unix.Kill(one.pid, unix.SIGCONT) })
	}
}

// early is a context whose deadline passes before it ends, as a socket's timer may fire before the context's.
type early struct{ context.Context }

func (early) Deadline() (time.Time, bool) { return time.Now().Add(time.Second / 4), true }

// TestStuckProgram freezes a sandbox while a program starts in it, with cgroup v1's freezer: no signal ends its
// processes then. The caller gets the name of the pending step, and Close does not wait for frozen processes.
func TestStuckProgram(t *testing.T) {
	freezer := newFreezer(t)
	b := newImpatient(t, 100*time.Millisecond)
	s, err := b.Start(t.Context(), backends.Spec{ID: "stuck", Language: "shell"})
	if err != nil {
		hosttest.SkipMissing(t, "sandbox", err.Error())
	}
	pid := s.(*Sandbox).pid
	freezer(pid)
	_, err = s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "echo never"}}, backends.Streams{})
	if err == nil || !strings.Contains(err.Error(), "start the program: the kernel did not answer within 2s") {
		t.Errorf("exec: %v; want the step that was not answered", err)
	}
	s.Close()
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatalf("the sandbox was not stuck: %v", err)
	}
	other, err := b.Start(t.Context(), backends.Spec{ID: "other", Language: "shell"})
	if err != nil {
		t.Fatalf("start beside one that is stuck: %v", err)
	}
	other.Close()
	b.Close()
}

// TestStuckEnd freezes a sandbox at its program's end: Exec returns the program's result, and Close does not wait.
func TestStuckEnd(t *testing.T) {
	freezer := newFreezer(t)
	b := newImpatient(t, 100*time.Millisecond)
	s, err := b.Start(t.Context(), backends.Spec{ID: "stuck", Language: "shell"})
	if err != nil {
		hosttest.SkipMissing(t, "sandbox", err.Error())
	}
	ctx, cancel := context.WithCancel(t.Context())
	pid := s.(*Sandbox).pid
	r, err := s.Exec(ctx, backends.Command{Args: []string{"bash", "-c", "echo begun; sleep 1000"}}, backends.Streams{Stdout: writer(func() {
		freezer(pid)
		cancel()
	})})
	if err != nil || r.Ended != backends.EndedCancelled {
		t.Errorf("exec: %v %+v; want cancelled", err, r)
	}
	s.Close()
	b.Close()
}

// TestCancelledAtOnce cancels programs as soon as one of their files appears: they have begun, even if the server
// does not know it yet.
func TestCancelledAtOnce(t *testing.T) {
	b := newBackend(t, Config{StateDir: t.TempDir()})
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		s, err := b.Start(t.Context(), backends.Spec{ID: "cancelled", Language: "shell",
			Mounts: []backends.Mount{{Host: dir, Inside: "/mnt/dir", Write: true}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			for os.Remove(filepath.Join(dir, "begun")) != nil && ctx.Err() == nil {
			}
			cancel()
		}()
		r, err := s.Exec(ctx, backends.Command{Args: []string{"/bin/sh", "-c", ": >/mnt/dir/begun; exec sleep 1000"}}, backends.Streams{})
		if err != nil || r.Ended != backends.EndedCancelled {
			t.Errorf("exec: %v %+v; want cancelled", err, r)
		}
		cancel()
		<-seen
		s.Close()
	}
}

// writer is called for each write.
type writer func()

func (w writer) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// newFreezer returns a function that puts a process and its later children into a frozen cgroup until the test
// ends.
func newFreezer(t *testing.T) func(pid int) {
	const root = "/sys/fs/cgroup/freezer"
	dir := filepath.Join(root, "sandboxmcp-test."+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		hosttest.SkipMissing(t, "freezer", err.Error())
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		write("freezer.state", "THAWED")
		hosttest.Until(t, "the frozen processes are gone", func() bool { return unix.Rmdir(dir) == nil })
	})
	return func(pid int) {
		for _, one := range append(children(pid), pid) {
			write("cgroup.procs", strconv.Itoa(one))
		}
		write("freezer.state", "FROZEN")
	}
}

// children lists the child processes of pid's first thread.
func children(pid int) (all []int) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/children")
	for field := range strings.FieldsSeq(string(text)) {
		child, _ := strconv.Atoi(field)
		all = append(all, child)
	}
	return all
}
