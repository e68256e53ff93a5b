package warm

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// pooled makes a backend that keeps sandboxes ready.
func pooled(t testing.TB) *Backend {
	return newBackend(t, process.Config{}, Config{Max: 8})
}

// newBackend makes a backend that ends with the test.
func newBackend(t testing.TB, core process.Config, c Config) *Backend {
	t.Helper()
	core.StateDir = t.TempDir()
	b := New(process.New(core), c)
	t.Cleanup(func() { b.Close() })
	return b
}

// interpreter returns that of a language.
func interpreter(t testing.TB, language string) runtimes.Runtime {
	t.Helper()
	r, err := runtimes.FindRuntime(t.Context(), language, runtimes.FromOS())
	if err != nil {
		hosttest.SkipMissing(t, language, err.Error())
	}
	return r
}

// interpreters are those of three languages, which show a directory of the host, too.
func interpreters(t testing.TB, dir string) map[string]runtimes.Runtime {
	all := map[string]runtimes.Runtime{}
	for _, language := range []string{"python", "node", "shell"} {
		r := interpreter(t, language)
		r.Prefixes = append(r.Prefixes, dir)
		all[language] = r
	}
	return all
}

// announced is the Spec of a program in a file.
func announced(language string, cmd backends.Command) backends.Spec {
	return backends.Spec{ID: "announced", Language: language, Program: &cmd}
}

// makeReady has a sandbox stand ready for a program.
func makeReady(t testing.TB, b *Backend, spec backends.Spec) {
	t.Helper()
	r, why := poolKeyOf(spec)
	if why != "" {
		t.Fatalf("nothing can stand ready: %s", why)
	}
	if failed := b.pool.Prepare(r); failed != "" {
		t.Fatal(failed)
	}
}

// ran is a Result with what was written.
type ran struct {
	backends.Result
	out, err string
}

func runProgram(t testing.TB, b *Backend, spec backends.Spec, files map[string]string, stdin string) ran {
	t.Helper()
	s, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, text := range files {
		if err := s.Files().Put(name, 0o644, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	streams := backends.Streams{Stdout: &out, Stderr: &errs}
	if stdin != "" {
		streams.Stdin = strings.NewReader(stdin)
	}
	r, err := s.Exec(t.Context(), *spec.Program, streams)
	if err != nil {
		t.Fatal(err)
	}
	return ran{r, out.String(), errs.String()}
}

// TestContract runs the attacks that every backend must withstand where PID 1s are spawned before.
func TestContract(t *testing.T) {
	only := []string{"Contained", "Files", "Isolation", "Kernel", "Streams"} // of all groups
	if hosttest.Rounds(0, 1) > 0 {
		only = nil
	}
	contract(t, Config{Ahead: 2}, backendtest.Options{Only: only})
}

// TestContractWarm runs the same attacks on sandboxes that stood ready, and compares what programs see there.
func TestContractWarm(t *testing.T) {
	contract(t, Config{Max: 32, Memory: 1 << 30}, backendtest.Options{Warm: true})
}

func contract(t *testing.T, c Config, o backendtest.Options) {
	probe := cgroup.Groups{Name: cgroup.NewName()}
	defer probe.Close()
	probe.FindBase()
	o.Profile, o.Cgroup = "hardened", probe.HasBase()
	backendtest.Run(t, func(t testing.TB) backends.Backend { return New(process.New(process.Config{StateDir: t.TempDir()}), c) }, o)
}

// TestMain lets the test binary be a server that a test kills.
func TestMain(m *testing.M) {
	if os.Getenv("SANDBOXMCP_TEST_ROLE") == "ready" {
		serveReady()
	}
	os.Exit(m.Run())
}
