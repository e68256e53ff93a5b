package process

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/pool"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
)

// preSpawned holds the processes that a backend starts before a request needs them. A sandbox made without it is the same,
// and only takes longer.
type preSpawned struct {
	backend   *Backend
	spares    warm.Spares[*initHandle]   // by shows
	templates *warm.Templates[*template] // likewise
	zygotes   *warm.Templates[*template] // by scriptKind
	pool      *pool.Pool[poolKey, *sandbox]

	compiling sync.Mutex
	compiled  map[string][]byte // bytecode of idle interpreters' start-up code, by interpreter
}

// bytecode compiles source by an interpreter in a sandbox of its own.
func (a *preSpawned) bytecode(ctx context.Context, interpreter, name, source string) ([]byte, error) {
	a.compiling.Lock()
	defer a.compiling.Unlock()
	key := name + " " + interpreter
	if code := a.compiled[key]; code != nil {
		return code, nil
	}
	s, err := a.backend.inTime(ctx, backends.Spec{ID: "compile", Language: "python"})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out, errs bytes.Buffer
	r, err := s.Exec(ctx, backends.Command{Args: []string{"python", "-I", "-S", "-c", compiler}},
		backends.Streams{Stdin: strings.NewReader(source), Stdout: &out, Stderr: &errs})
	if err != nil || r.Ended != backends.EndedOK {
		return nil, fmt.Errorf("compile what python waits in: %s %v %.500s", r.Ended, err, errs.String())
	}
	a.compiled[key] = out.Bytes()
	return out.Bytes(), nil
}

//go:embed idle/compile.py
var compiler string

// holdSource is the start-up code of an idle Python that is no fork.
//
//go:embed idle/sitecustomize.py
var holdSource string

// newPreSpawned returns an empty pool with the limits of b's configuration.
func newPreSpawned(b *Backend) *preSpawned {
	a := &preSpawned{
		backend:   b,
		spares:    warm.Spares[*initHandle]{Enough: b.config.Ahead, Bound: b.starting},
		templates: warm.NewTemplates[*template](warm.Limits{Each: runtime.NumCPU(), PauseFirst: time.Minute, PauseMax: time.Minute}),
		zygotes: warm.NewTemplates[*template](warm.Limits{
			Each: 1, All: maxZygotes, Uses: maxForks, Age: maxZygoteAge, PauseFirst: time.Second, PauseMax: 10 * time.Minute,
		}),
		compiled: map[string][]byte{},
	}
	c := b.config.Pool
	a.pool = pool.New(pool.Config[poolKey, *sandbox]{
		Max: c.Max, Memory: cmp.Or(c.Memory, 128<<20), Idle: cmp.Or(c.Idle, 5*time.Minute), Once: b.config.Inside,
		Make: a.newIdle, Tidy: a.zygotes.Tidy,
	})
	return a
}

// start returns an idle sandbox for a program, or a new one.
func (a *preSpawned) start(ctx context.Context, spec backends.Spec) (s *sandbox, err error) {
	var r poolKey
	var why string // none stands ready
	if a.backend.config.Pool.Max > 0 && spec.Program != nil {
		if r, why = poolKeyOf(spec); why == "" {
			s, why = a.pool.Take(r)
		}
	}
	if s == nil {
		if a.backend.config.Inside {
			a.pool.Clear() // or the program would see what stood ready for another
		}
		if s, err = a.backend.bounded(ctx, func(ctx context.Context) (*sandbox, error) { return a.fresh(ctx, spec, r, why) }); err != nil {
			return nil, err
		}
	}
	if s.idle != nil {
		s.id, s.idle.program = spec.ID, spec.Program
		a.pool.Record(s.runtime.Name, s.limits.RAM, s.idle.cold)
	}
	return s, nil
}

// fresh starts a sandbox for which none was idle. If a zygote is ready, its interpreter is forked for the program at once,
// which is faster than a start. A zygote that fails costs time, and nothing else.
func (a *preSpawned) fresh(ctx context.Context, spec backends.Spec, r poolKey, why string) (*sandbox, error) {
	if r.language == "python" && r.script != "" {
		s, err := a.forkIdle(ctx, spec, r, false)
		if s != nil {
			return s, nil
		}
		if err != nil {
			why = "a Python could not be forked: " + err.Error()
		}
	}
	s, err := a.backend.startNew(ctx, spec)
	if err == nil && why != "" {
		s.setIdle(&idleProcess{launched: launched{cold: why}})
	}
	return s, err
}

// newIdle makes an idle sandbox. Only containers, which have no zygotes, have an idle Python that is no fork: it shows in
// /proc what it was started with.
func (a *preSpawned) newIdle(ctx context.Context, r poolKey) (s *sandbox, err error) {
	ctx, cancel := a.backend.starting(ctx)
	defer cancel()
	if r.language == "python" && !a.backend.config.Inside {
		if s, err = a.forkIdle(ctx, r.spec(), r, true); s == nil && err == nil {
			err = errors.New("this Python can't be forked")
		}
		return s, err
	}
	if s, err = a.backend.startNew(ctx, r.spec()); err == nil {
		if err = a.startIdle(ctx, s, r); err != nil {
			s.Close()
		}
	}
	return s, err
}

// forkIdle makes a sandbox whose PID 1 and interpreter a zygote forks, and in which the interpreter waits. Both results are
// nil where no zygote can do that, or would have to be started first and start is false.
func (a *preSpawned) forkIdle(ctx context.Context, spec backends.Spec, r poolKey, start bool) (*sandbox, error) {
	s, err := a.backend.newSandbox(ctx, spec)
	if err != nil || !s.hostIndependent() || !start && !a.zygotes.Ready(scriptKind(s.runtime, r.script)) {
		return nil, err
	}
	if s.initHandle, err = a.spawnByZygote(ctx, s.runtime, r.script); err == nil {
		err = s.start(ctx)
	}
	if err == nil {
		err = a.startIdle(ctx, s, r)
	}
	if err == nil {
		return s, nil
	}
	z := s.zygote()
	s.Close()
	if z != nil && ctx.Err() == nil && !errors.As(err, new(*backends.Refusal)) {
		a.zygotes.Drop(z, err)
	}
	return nil, err
}

// startIdle starts the interpreter of a sandbox before it has a program, and returns when the interpreter waits.
func (a *preSpawned) startIdle(ctx context.Context, s *sandbox, r poolKey) (err error) {
	k := &idleProcess{key: r}
	s.setIdle(k) // for Close
	if r.script == "" || r.language == "shell" && path.Base(s.runtime.Path) != "bash" {
		return nil
	}
	var theirs *os.File
	var env []string
	whom := byte(launch.ForProgram)
	switch r.language {
	case "python":
		if theirs, err = connectChannel(func(c io.ReadWriteCloser) { k.channel = c }, func() {}); err != nil {
			return err
		}
		defer theirs.Close()
		if s.foreign {
			whom = launch.ForHeld
			break
		}
		env = []string{"PYTHONPATH=" + path.Join(workspace, hold)}
		code, err := a.bytecode(ctx, s.runtime.Path, "hold", holdSource)
		if err != nil {
			return err
		}
		if err := s.files.Put(hold+"/sitecustomize.pyc", 0o600, bytes.NewReader(code)); err != nil {
			return err
		}
	case "node":
		if r.env != "" {
			env = strings.Split(r.env, "\x00")
		}
		if err := s.setFifo(k, r.script); err != nil {
			return err
		}
	case "shell":
		var ours *os.File
		if theirs, ours, err = pipe(1); err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		defer theirs.Close()
		k.channel, env = ours, []string{bashWaits}
		if s.uid != 0 { // bash opens it by name
			if err := theirs.Chown(s.uid, s.uid); err != nil {
				return err
			}
		}
	}
	if k.pipes, err = s.newPipes(); err != nil {
		return err
	}
	p := s.backend.execPlan(s, backends.Command{Args: r.args(), Env: env}, k.pipes, theirs)
	k.launched, err = s.begin(ctx, p, k.pipes, whom)
	k.pipes.started()
	theirs.Close()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, idleStartTimeout)
	defer cancel()
	if err := s.awaitIdle(ctx, k); err != nil {
		return fmt.Errorf("wait for %s to stand ready: %w", r.language, err)
	}
	return nil
}

// hold is the directory of the sitecustomize.py that stops an idle Python, and that removes the directory.
const hold = ".hold"
