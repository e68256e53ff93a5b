package mcp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// engine is a backend with a configurable probe. Nothing is started in it.
type engine struct {
	backends.Backend
	name  string
	probe func(context.Context) (backends.Probe, error)
}

func (e engine) Name() string             { return e.name }
func (e engine) Promises(string) []string { return backends.EngineLayers }

// Start implements [backends.Backend].
func (engine) Start(context.Context, backends.Spec) (backends.Sandbox, error) {
	return nil, errors.New("nothing is started here")
}

// CanMount implements [backends.Backend], as do the next.
func (engine) CanMount(context.Context) error { return nil }

func (engine) Pools() []backends.Pool { return nil }
func (e engine) Probe(ctx context.Context, s backends.Spec) (backends.Probe, error) {
	return e.probe(ctx)
}

func answering(context.Context) (backends.Probe, error) {
	return backends.Probe{Backend: "podman", Usable: true, Runtimes: []backends.Runtime{
		{Name: "python", Path: "/usr/bin/python3", Version: "3.12.1"}, {Name: "r", Why: remedy.Text{"no image"}},
	}}, nil
}

func refusing(context.Context) (backends.Probe, error) {
	return backends.Probe{}, backends.Refuse("docker does not answer", remedy.Command.With("sandboxmcp doctor --backend docker"))
}

func hanging(ctx context.Context) (backends.Probe, error) {
	<-ctx.Done()
	return backends.Probe{}, context.Cause(ctx)
}

func runtimes(t *testing.T, all []backends.Backend, named string) (*answer.Answer, error) {
	t.Helper()
	p := pipeline.New(pipeline.Config{Backends: all})
	defer p.Close()
	s := &Server{cfg: Config{Pipeline: p}}
	for _, b := range all {
		s.cfg.Backends = append(s.cfg.Backends, b.Name())
	}
	return s.listRuntimes(t.Context(), &call{}, &runtimesArgs{onBackend: onBackend{named}})
}

// TestRuntimesOfAll: list_runtimes lists the runtimes of the default backend, and those of each other backend or why
// it has none.
func TestRuntimesOfAll(t *testing.T) {
	all := []backends.Backend{engine{name: "podman", probe: answering}, engine{name: "docker", probe: refusing}}
	a, err := runtimes(t, all, "")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, a.Text, "backend podman can run code:", "- python 3.12.1", "- r is missing: no image",
		"backend docker can't run code: docker does not answer")
	f := a.Facts.(*runtimesFacts)
	if f.Backend != "podman" || !f.Usable || len(f.Runtimes) != 2 || len(f.Others) != 1 || f.Others[0].Usable || f.Others[0].Why == "" {
		t.Errorf("got %+v", f)
	}
	// A named backend is the only one listed, and its failure is an error.
	if a, err := runtimes(t, all, "podman"); err != nil || a.Facts.(*runtimesFacts).Others != nil {
		t.Errorf("got %+v, %v", a, err)
	}
	_, err = runtimes(t, all, "docker")
	if r := answer.Explain("", err); !r.Denied || r.Reason != "docker does not answer" ||
		r.Remedy != "sandboxmcp doctor --backend docker (for a person to type)" {
		t.Errorf("got %+v", r)
	}
	// The default backend may fail.
	a, err = runtimes(t, []backends.Backend{all[1], all[0]}, "")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, a.Text, "backend docker can't run code: docker does not answer", "backend podman can run code:")
}

// TestRuntimesOfOneThatHangs: an engine that never answers does not block list_runtimes.
func TestRuntimesOfOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		a, err := runtimes(t, []backends.Backend{engine{name: "podman", probe: answering}, engine{name: "docker", probe: hanging}}, "")
		if err != nil {
			t.Fatal(err)
		}
		contains(t, a.Text, "backend podman can run code:", "backend docker can't run code: ")
		if took := time.Since(began); took > otherTimeout {
			t.Errorf("took %v", took)
		}
		began = time.Now()
		_, err = runtimes(t, []backends.Backend{engine{name: "docker", probe: hanging}}, "docker")
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > probeTimeout {
			t.Errorf("took %v: %v", took, err)
		}
	})
}
