//go:build linux

package backendtest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

//go:embed programs
var programs embed.FS

// bench is the environment of the tests of one group.
type bench struct {
	backend    backends.Backend
	newBackend func(t testing.TB) backends.Backend
	o          Options
	warming    sync.Mutex // held while a caller waits for an idle sandbox
}

// spec returns the usual Spec, with limits low enough to reveal a leak.
func (b *bench) spec(language string) backends.Spec {
	return backends.Spec{
		ID: ulid.Make().String(), Language: language, Profile: b.o.Profile,
		Limits: backends.Limits{RAM: 256 << 20, Wall: time.Hour, Disk: 64 << 20, Processes: 20},
	}
}

// start starts a sandbox that is closed at the end of the test. If programs are announced, it skips the test, which
// a run without Options.Warm covers.
func (b *bench) start(t testing.TB, spec backends.Spec) backends.Sandbox {
	t.Helper()
	if b.o.Warm {
		t.Skip("no program is announced here")
	}
	return b.openSandbox(t, spec)
}

func (b *bench) openSandbox(t testing.TB, spec backends.Spec) backends.Sandbox {
	t.Helper()
	spec.ID = ulid.Make().String() // many sandboxes, also concurrent ones, share a spec
	s, err := b.backend.Start(t.Context(), spec)
	var refusal *backends.Refusal
	if errors.As(err, &refusal) && refusal.Layer == "" {
		b.skipMissing(t, spec.Language, refusal.Error())
	}
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// parallel runs a case in parallel, unless the kernel counts the processes of all cases together.
func (b *bench) parallel(t *testing.T) {
	if b.o.Cgroup || b.promises(backends.LayerUser) {
		t.Parallel()
	}
}

// runParallel runs a parallel subtest.
func (b *bench) runParallel(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		b.parallel(t)
		f(t)
	})
}

// startRefused starts a sandbox that must be refused, and returns the refusal.
func (b *bench) startRefused(t testing.TB, spec backends.Spec) error {
	s, err := b.backend.Start(t.Context(), spec)
	if err == nil {
		s.Close()
	}
	return err
}

// session starts a sandbox that can run many commands.
func (b *bench) session(t testing.TB, language string) backends.Sandbox {
	t.Helper()
	spec := b.spec(language)
	spec.Keep = true
	return b.start(t, spec)
}

// outcome is a Result and all output.
type outcome struct {
	backends.Result
	Stdout, Stderr string
}

// tryExec executes a command.
func tryExec(t testing.TB, s backends.Sandbox, cmd backends.Command, stdin io.Reader) (outcome, error) {
	t.Helper()
	var out, errs lockedBuffer
	r, err := s.Exec(context.WithoutCancel(t.Context()), cmd, backends.Streams{Stdin: stdin, Stdout: &out, Stderr: &errs})
	return outcome{r, out.String(), errs.String()}, err
}

// mustExec executes a command that must start.
func mustExec(t testing.TB, s backends.Sandbox, args ...string) outcome {
	t.Helper()
	o, err := tryExec(t, s, backends.Command{Args: args}, nil)
	if err != nil {
		t.Fatalf("exec %.80q: %v", args, err)
	}
	return o
}

// python runs source text, and shell likewise, in a fresh sandbox.
func (b *bench) python(t testing.TB, source string, args ...string) outcome {
	t.Helper()
	return b.run(t, b.spec("python"), source, args...)
}

func (b *bench) shell(t testing.TB, source string) outcome {
	t.Helper()
	return b.run(t, b.spec("shell"), source)
}

// runProgramFile puts a file of directory programs into a fresh sandbox and runs it.
func (b *bench) runProgramFile(t testing.TB, spec backends.Spec, name string, args ...string) outcome {
	t.Helper()
	cmd := backends.Command{Args: append([]string{runtimeOf(name), name}, args...)}
	s := b.startAnnounced(t, spec, cmd)
	putPrograms(t, s, name)
	return b.execAnnounced(t, s, cmd)
}

func runtimeOf(name string) string {
	switch {
	case strings.HasSuffix(name, ".py"):
		return "python"
	case strings.HasSuffix(name, ".js"):
		return "node"
	}
	return "bash"
}

// putPrograms copies files of directory programs into the workspace.
func putPrograms(t testing.TB, s backends.Sandbox, names ...string) {
	t.Helper()
	for _, name := range names {
		text, err := programs.ReadFile("programs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		putText(t, s, name, string(text))
	}
}

// putText writes a file into the workspace.
func putText(t testing.TB, s backends.Sandbox, name, text string) {
	t.Helper()
	if err := s.Files().Put(name, 0o644, strings.NewReader(text)); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

// mustSucceed fails the test unless the program exited with 0.
func (o outcome) mustSucceed(t testing.TB) outcome {
	t.Helper()
	if o.Ended != backends.EndedOK || o.ExitCode != 0 {
		t.Fatalf("ended %s, exit code %d %s %s\nstdout: %.2000s\nstderr: %.4000s",
			o.Ended, o.ExitCode, o.Signal, o.Limit, o.Stdout, o.Stderr)
	}
	return o
}

// lockedBuffer collects one stream.
type lockedBuffer struct{ hosttest.Buffer }

// waitFor waits until a program has written a text.
func (l *lockedBuffer) waitFor(t testing.TB, text string) {
	t.Helper()
	hosttest.Until(t, fmt.Sprintf("a program says %q", text), func() bool { return strings.Contains(l.String(), text) })
}

// poison sets variables in this process that no program may see. Some would make an interpreter fail.
func poison() map[string]string {
	return map[string]string{
		"SANDBOXMCP_CANARY":        "canary-of-the-host-environment",
		"AWS_SECRET_KEY":           "canary-of-the-host-environment",
		"BASH_ENV":                 "/nonexistent/canary-of-the-host-environment",
		"ENV":                      "/nonexistent/canary-of-the-host-environment",
		"NODE_OPTIONS":             "--require=/nonexistent/canary-of-the-host-environment",
		"PYTHONPATH":               "/nonexistent/canary-of-the-host-environment",
		"PYTHONSTARTUP":            "/nonexistent/canary-of-the-host-environment",
		"PERL5LIB":                 "/nonexistent/canary-of-the-host-environment",
		"http_proxy":               "http://canary-of-the-host-environment:1/",
		"SSH_AUTH_SOCK":            "/nonexistent/canary-of-the-host-environment",
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent/canary-of-the-host-environment",
	}
}

func poisonEnvironment(t *testing.T) {
	for k, v := range poison() {
		t.Setenv(k, v)
	}
}
