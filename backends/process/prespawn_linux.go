package process

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
)

// preSpawned holds the processes that a backend starts before a request needs them. A sandbox made without it is the same,
// and only takes longer.
type preSpawned struct {
	backend   *Backend
	spares    warm.Spares[*initHandle]   // by shows
	templates *warm.Templates[*template] // likewise
	zygotes   *warm.Templates[*template] // by scriptKind
	pool      *warm.Pool[poolKey, *sandbox]

	compiling sync.Mutex
	compiled  map[string][]byte // bytecode of idle interpreters' start-up code, by interpreter
}

// spawn gives a sandbox a PID 1 that was pre-spawned, or one spawned by a template.
func (a *preSpawned) spawn(ctx context.Context, s *sandbox) (*initHandle, error) {
	switch {
	case s.shared():
		return a.backend.spawn(ctx, s)
	case s.hostIndependent():
		return a.spares.Take(ctx, shows(s.runtime), a.templateSpawner(s.runtime))
	}
	return a.spares.Take(ctx, "any", func(ctx context.Context) (*initHandle, error) { return a.backend.spawn(ctx, s) })
}

// templateSpawner returns a function that spawns PID 1s for host-independent sandboxes of a runtime.
func (a *preSpawned) templateSpawner(r runtimes.Runtime) func(context.Context) (*initHandle, error) {
	return func(ctx context.Context) (*initHandle, error) { return a.spawnForRuntime(ctx, r) }
}

// bytecode compiles source by an interpreter in a sandbox of its own.
func (a *preSpawned) bytecode(ctx context.Context, interpreter, name, source string) ([]byte, error) {
	a.compiling.Lock()
	defer a.compiling.Unlock()
	key := name + " " + interpreter
	if code := a.compiled[key]; code != nil {
		return code, nil
	}
	compiler, err := holds.ReadFile("idle/compile.py")
	if err != nil {
		return nil, err
	}
	s, err := a.backend.inTime(ctx, backends.Spec{ID: "compile", Language: "python"}, a.spawn)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out, errs bytes.Buffer
	r, err := s.Exec(ctx, backends.Command{Args: []string{"python", "-I", "-S", "-c", string(compiler)}},
		backends.Streams{Stdin: strings.NewReader(source), Stdout: &out, Stderr: &errs})
	if err != nil || r.Ended != backends.EndedOK {
		return nil, fmt.Errorf("compile what python waits in: %s %v %.500s", r.Ended, err, errs.String())
	}
	a.compiled[key] = out.Bytes()
	return out.Bytes(), nil
}

//go:embed idle
var holds embed.FS
