package packages

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/egress"
)

// TestMain lets the test binary be a server that a test kills. That it is its own sandbox child is
// the doing of backends/process.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SANDBOXMCP_TEST_PACKAGES"); dir != "" {
		serve(dir)
	}
	os.Exit(m.Run())
}

// serve installs "slow" while it has a session, until it is killed.
func serve(dir string) {
	b := process.New(process.Config{StateDir: dir + "/state"})
	s, err := Open(Config{Dir: dir, CacheBytes: 1 << 30})
	if err == nil {
		_, err = s.OpenSession(context.Background(), b, "default", "lost", "python")
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	_, err = s.Install(context.Background(), Order{ID: "slow", Namespace: "default", Language: "python", Packages: []string{"slow"},
		Backend: b,
		Egress:  egress.Config{Decided: func(context.Context, egress.Decision) error { return nil }}})
	fmt.Println("ended:", err)
	os.Exit(1)
}

// bench is a store and a backend of one test.
type bench struct {
	testing.TB
	*Store
	*registry
	backend  backends.Backend
	recorded atomic.Int64 // decisions
}

func newBench(t testing.TB, c Config) *bench {
	t.Helper()
	for _, name := range []string{"python3", "node", "npm"} {
		hosttest.Program(t, name)
	}
	r := newRegistry(t)
	r.configure(t)
	return benchWith(t, c, r)
}

func benchWith(t testing.TB, c Config, r *registry) *bench {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	c.CacheBytes = cmp.Or(c.CacheBytes, 1<<30)
	b := process.New(process.Config{StateDir: t.TempDir()})
	t.Cleanup(func() { b.Close() })
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{TB: t, Store: s, registry: r, backend: b}
}

func (b *bench) order(language string, packages ...string) Order {
	return Order{ID: "test", Namespace: "default", Language: language, Packages: packages, Backend: b.backend,
		Require: backends.ContainmentLayers, Egress: b.egress()}
}

// egress is the configuration of an order; it counts the recorded decisions.
func (b *bench) egress() egress.Config {
	return egress.Config{Decided: func(_ context.Context, d egress.Decision) error {
		b.recorded.Add(1)
		return nil
	}}
}

// install must do well.
func (b *bench) install(o Order) Receipt {
	b.Helper()
	r, err := b.Install(b.Context(), o)
	if err != nil || r.ExitCode != 0 {
		b.Fatalf("install %v: exit %d, %v\n%s%s\n%+v", o.Packages, r.ExitCode, err, r.Stdout, r.Stderr, r.Hosts)
	}
	return r
}

// fails must be a receipt that says so.
func (b *bench) fails(o Order) Receipt {
	b.Helper()
	r, err := b.Install(b.Context(), o)
	if err != nil || r.ExitCode == 0 || r.Layer != "" || len(r.Packages) > 0 {
		b.Fatalf("install %v: got %+v, %v, want a receipt of a failure", o.Packages, r, err)
	}
	return r
}

func (b *bench) view(namespace, session, language string) View {
	b.Helper()
	v, err := b.View(b.Context(), b.backend, namespace, session, language)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(v.Release)
	return v
}

// start is a sandbox that is shown a view.
func (b *bench) start(language string, v View) backends.Sandbox {
	b.Helper()
	s, err := b.backend.Start(b.Context(), backends.Spec{ID: "run", Language: language, Mounts: v.Mounts, Keep: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// says returns the output of a program in a sandbox, from both streams.
func (b *bench) says(s backends.Sandbox, language string, v View, code string) string {
	b.Helper()
	name, args := "prog.py", []string{"python", "prog.py"}
	switch {
	case language == "node" && strings.HasPrefix(code, "import "):
		name, args = "prog.mjs", []string{"node", "prog.mjs"}
	case language == "node":
		name, args = "prog.js", []string{"node", "prog.js"}
	}
	if err := s.Files().Put(name, 0o644, strings.NewReader(code)); err != nil {
		b.Fatal(err)
	}
	var out strings.Builder
	_, err := s.Exec(b.Context(), backends.Command{Args: args, Env: v.Env}, backends.Streams{Stdout: &out, Stderr: &out})
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// run is says in a fresh sandbox of a namespace.
func (b *bench) run(namespace, language, code string) string {
	b.Helper()
	v := b.view(namespace, "", language)
	return b.says(b.start(language, v), language, v, code)
}
