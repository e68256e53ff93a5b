package backendtest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// bare runs programs without containment, to prove that the attacks work.
type bare struct{}

func (bare) Name() string { return "bare" }

func (bare) Probe(context.Context, backends.Spec) (backends.Probe, error) {
	return backends.Probe{Backend: "bare"}, nil
}

func (bare) Promises(string) []string { return nil }

// CanMount implements [backends.Backend], as do the following methods.
func (bare) CanMount(context.Context) error { return nil }

func (bare) Pools() []backends.Pool { return nil }

func (bare) Close() error { return nil }

func (bare) Start(_ context.Context, spec backends.Spec) (backends.Sandbox, error) {
	dir, err := os.MkdirTemp("", "bare-")
	return &bareSandbox{dir, nil}, err
}

// jail runs programs as root of their own namespaces, with every system call permitted.
type jail struct{ bare }

func (jail) Start(_ context.Context, spec backends.Spec) (backends.Sandbox, error) {
	dir, err := os.MkdirTemp("", "bare-")
	before := []string{"unshare", "--kill-child", "--mount", "--pid", "--fork", "--mount-proc", "--ipc", "--uts", "--net", "--cgroup"}
	if os.Geteuid() != 0 {
		before = append(before, "--user", "--map-root-user")
	}
	return &bareSandbox{dir, before}, err
}

type bareSandbox struct {
	dir    string
	before []string
}

func (s *bareSandbox) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	name := cmd.Args[0]
	if name == "python" {
		name = "python3"
	}
	args := append(append(slices.Clone(s.before), name), cmd.Args[1:]...)
	c := osexec.CommandContext(ctx, args[0], args[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Dir, c.Stdin, c.Stdout, c.Stderr = s.dir, streams.Stdin, streams.Stdout, streams.Stderr
	err := c.Run()
	if c.ProcessState == nil {
		return backends.Result{}, err
	}
	r := backends.Result{End: backends.End{Ended: backends.EndedOK, ExitCode: c.ProcessState.ExitCode()}}
	if r.ExitCode != 0 {
		r.Ended = backends.EndedExit
	}
	return r, nil
}

func (s *bareSandbox) Files() backends.Files { return bareFiles{s.dir} }

func (s *bareSandbox) Gateway() backends.Sockets { return backends.Sockets{} }

func (s *bareSandbox) Usage() backends.Usage             { return backends.Usage{} }
func (s *bareSandbox) Sample(bool) func() backends.Usage { return s.Usage }

func (s *bareSandbox) Limit(l backends.Limits) (backends.Limits, error) { return l, nil }

func (s *bareSandbox) Close() error { return os.RemoveAll(s.dir) }

type bareFiles struct{ dir string }

func (f bareFiles) Put(name string, mode uint32, r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.dir, name), text, os.FileMode(mode))
}

func (f bareFiles) Each(context.Context, func(backends.File) error) (int, error) {
	return 0, fmt.Errorf("bare: %w", os.ErrInvalid)
}

func (f bareFiles) Changes(context.Context, func(backends.Change) error) error {
	return backends.ErrNotProposed
}

// TestAttacksOpenWithoutContainment checks that each attack succeeds without containment: one that fails there
// proves nothing. Attacks that would harm the host run in namespaces of their own; a few that would harm it even
// then are skipped.
func TestAttacksOpenWithoutContainment(t *testing.T) {
	hosttest.Program(t, "python3")
	b := &bench{o: Options{Layers: backends.ContainmentLayers}}
	network, reached := networkTarget(t)
	files, _ := filesTarget(t)
	isolation, _ := isolationTarget(t, b)
	t.Setenv("SANDBOXMCP_CANARY", poison()["SANDBOXMCP_CANARY"])
	container := containerTarget(t)
	targets := map[string]map[string]any{"kernel.py": {}, "kernelfiles.py": {}, "privileges.py": {}, "container.py": container,
		"network.py": network, "files.py": files, "isolation.py": isolation, "ouruser.py": userTarget(t)}
	opens := func(b *bench, mode string) {
		for program, target := range targets {
			t.Run(mode+"/"+program, func(t *testing.T) {
				target := maps.Clone(target)
				target[mode] = true
				for _, r := range b.runAttacks(t, program, target) {
					t.Run(r.Name, func(t *testing.T) { checkOpened(t, r) })
				}
			})
		}
	}
	b.backend = bare{}
	opens(b, "bare")
	if reached.Load() == 0 {
		t.Error("no listener was reached")
	}
	if out, err := osexec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		t.Logf("no namespaces to be root of: %v %s", err, out)
		return
	}
	b.backend = jail{}
	opens(b, "jail")
}

// notHere are errors of a feature that this host lacks, not of a layer that denied it.
var notHere = []string{"No such file", "No such device", "Protocol not available", "No such process", "File exists",
	"Device or resource busy"}

func checkOpened(t *testing.T, r report) {
	switch {
	case r.State == "open":
	case r.State == "skip":
		t.Skip("not in this mode")
	case r.State == "absent" || slices.ContainsFunc(notHere, func(s string) bool { return strings.Contains(r.Detail, s) }):
		t.Skip("this host has nothing to open: ", r.Detail)
	case (r.Root || os.Geteuid() != 0) && (strings.Contains(r.Detail, "not permitted") || strings.Contains(r.Detail, "ermission denied")):
		t.Skip("for root with all capabilities: ", r.Detail)
	case r.Root && os.Geteuid() != 0:
		t.Skip("for root alone: ", r.Detail)
	default:
		t.Errorf("%s without containment: %s", r.State, r.Detail)
	}
}
