package warm

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// fromTemplate starts a shell sandbox, and fails if it does not come from a template.
func fromTemplate(t *testing.T, b *Backend) *sandbox {
	t.Helper()
	one, err := b.Start(t.Context(), backends.Spec{ID: "template", Language: "shell", Keep: true, Require: backends.ContainmentLayers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close() })
	if len(b.templates.Running()) == 0 {
		_, err := b.spawnForRuntime(t.Context(), one.(*sandbox).Runtime())
		t.Fatalf("the launcher made it: %v", err)
	}
	return one.(*sandbox)
}

func runScript(t *testing.T, s *sandbox, script string) string {
	t.Helper()
	var out, errs bytes.Buffer
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", script}}, backends.Streams{Stdout: &out, Stderr: &errs})
	if err != nil || r.Ended != backends.EndedOK {
		t.Fatalf("%q: %+v %v %s", script, r, err, &errs)
	}
	return out.String()
}

// TestTemplateDies kills a template: its sandboxes end with it, and the next sandbox gets another.
func TestTemplateDies(t *testing.T) {
	b := newBackend(t, process.Config{}, Config{Ahead: 1})
	s := fromTemplate(t, b)
	for _, one := range b.templates.Running() {
		unix.Kill(one.PID(), unix.SIGKILL)
	}
	hosttest.Until(t, "the sandbox has ended", func() bool { return s.HasEnded(0) })
	if got := runScript(t, fromTemplate(t, b), "echo on"); got != "on\n" {
		t.Errorf("got %q", got)
	}
}

// TestTemplateFollowsTheHost replaces a file that a template has copied: living sandboxes are not affected, and the
// next show the new file.
func TestTemplateFollowsTheHost(t *testing.T) {
	home, err := os.UserHomeDir() // each sandbox has its own /tmp
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp(home, "TestTemplate")
	if err != nil || strings.HasPrefix(dir, "/tmp/") {
		t.Skip("no directory outside of /tmp: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	prefix := dir + "/prefix"
	write := func(content string) {
		t.Helper()
		os.RemoveAll(prefix)
		if err := os.MkdirAll(prefix, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(prefix+"/file", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	b := newBackend(t, process.Config{Runtimes: interpreters(t, prefix)}, Config{Ahead: 1})
	before := fromTemplate(t, b)
	write("new")
	time.Sleep(200 * time.Millisecond) // the minimum time between comparisons with the host
	after := fromTemplate(t, b)
	if got := runScript(t, after, "cat "+prefix+"/file"); got != "new" {
		t.Errorf("the next sandbox shows %q", got)
	}
	if got := runScript(t, before, "echo alive"); got != "alive\n" {
		t.Errorf("the one before says %q", got)
	}
	left := hosttest.Descendants(os.Getpid())
	b.Close()
	if left = hosttest.FilterLiving(left); len(left) > 0 {
		t.Errorf("of the templates live on: %v", left)
	}
}

// TestCancelledSpawn cancels a caller while a template spawns for it: the template continues for others.
func TestCancelledSpawn(t *testing.T) {
	b := newBackend(t, process.Config{}, Config{Ahead: 1})
	s := fromTemplate(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if one, err := b.spawnForRuntime(ctx, s.Runtime()); err == nil {
		one.Remove()
		t.Skip("it was spawned before the cancellation")
	}
	if !s.Current() || !b.templates.Ready(rootKey(s.Runtime())) {
		t.Error("the template was given up")
	}
}

// TestTemplateKinds checks that only a different root gets a template of its own.
func TestTemplateKinds(t *testing.T) {
	want := rootKey(runtimes.Runtime{Name: "python", Path: "/usr/bin/python3"})
	for _, c := range []struct {
		name string
		r    runtimes.Runtime
		same bool
	}{
		{"another language of the system", runtimes.Runtime{Name: "shell", Path: "/bin/sh"}, true},
		{"a prefix", runtimes.Runtime{Prefixes: []string{"/opt/x"}}, false},
		{"a link", runtimes.Runtime{Links: map[string]string{"/opt/x": "/opt/y"}}, false},
	} {
		if got := rootKey(c.r) == want; got != c.same {
			t.Errorf("%s: same root: got %v, want %v", c.name, got, c.same)
		}
	}
}
