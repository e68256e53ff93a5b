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

// pooled returns a backend with idle sandboxes.
func pooled(t testing.TB) *Backend {
	return newBackend(t, process.Config{}, Config{Max: 8})
}

// newBackend returns a backend that is closed at the end of the test.
func newBackend(t testing.TB, core process.Config, c Config) *Backend {
	t.Helper()
	core.StateDir = t.TempDir()
	b := New(process.New(core), c)
	t.Cleanup(func() { b.Close() })
	return b
}

// interpreter returns the interpreter of a language.
func interpreter(t testing.TB, language string) runtimes.Runtime {
	t.Helper()
	r, err := runtimes.FindRuntime(t.Context(), language, runtimes.FromOS())
	if err != nil {
		hosttest.SkipMissing(t, language, err.Error())
	}
	return r
}

// interpreters returns those of three languages, which also show a host directory.
func interpreters(t testing.TB, dir string) map[string]runtimes.Runtime {
	all := map[string]runtimes.Runtime{}
	for _, language := range []string{"python", "node", "shell"} {
		r := interpreter(t, language)
		r.Prefixes = append(r.Prefixes, dir)
		all[language] = r
	}
	return all
}

// announced returns the Spec of a program in a file.
func announced(language string, cmd backends.Command) backends.Spec {
	return backends.Spec{ID: "announced", Language: language, Program: &cmd}
}

// makeReady makes a sandbox idle for a program.
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

// ran is a Result with its output.
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

// TestContract runs the attacks that every backend must withstand with prespawned PID 1s.
func TestContract(t *testing.T) {
	only := []string{"Contained", "Files", "Isolation", "Kernel", "Streams"} // of all groups
	if hosttest.Rounds(0, 1) > 0 {
		only = nil
	}
	contract(t, Config{Ahead: 2}, backendtest.Options{Only: only})
}

// TestContractWarm runs the same attacks on idle sandboxes, and compares programs' views of them.
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

// TestMain gives the test binary the role of a server that a test kills.
func TestMain(m *testing.M) {
	if os.Getenv("SANDBOXMCP_TEST_ROLE") == "ready" {
		serveReady()
	}
	os.Exit(m.Run())
}
