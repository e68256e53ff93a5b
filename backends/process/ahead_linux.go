package process

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
)

// ahead is all that a backend makes before somebody asks for it. Without it a sandbox is the same, but for the time that it takes.
type ahead struct {
	backend *Backend
	spares  warm.Spares[*birth]    // by shows
	nests   *warm.Templates[*nest] // likewise
	zygotes *warm.Templates[*nest] // by scriptKind
	pool    *warm.Pool[recipe, *sandbox]

	compiling sync.Mutex
	compiled  map[string][]byte // by interpreter: what it waits in
}

func newAhead(b *Backend) *ahead {
	a := &ahead{
		backend: b,
		spares:  warm.Spares[*birth]{Enough: b.config.Ahead, Bound: b.starting},
		nests:   warm.NewTemplates[*nest](warm.Limits{Each: runtime.NumCPU(), PauseFirst: time.Minute, PauseMax: time.Minute}),
		zygotes: warm.NewTemplates[*nest](warm.Limits{
			Each: 1, All: mostZygotes, Uses: mostForks, Age: mostAge, PauseFirst: time.Second, PauseMax: 10 * time.Minute,
		}),
		compiled: map[string][]byte{},
	}
	c := b.config.Pool
	a.pool = warm.NewPool(warm.Config[recipe, *sandbox]{
		Max: c.Max, Memory: cmp.Or(c.Memory, 256<<20), Idle: cmp.Or(c.Idle, 5*time.Minute), Once: b.config.Inside,
		Make: a.stand, Tidy: a.zygotes.Tidy,
	})
	return a
}

// start returns the sandbox that stands ready for a program, or a new one.
func (a *ahead) start(ctx context.Context, spec backends.Spec) (s *sandbox, err error) {
	var r recipe
	var why string // none stands ready
	if a.backend.config.Pool.Max > 0 && spec.Program != nil {
		if r, why = recipeOf(spec); why == "" {
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
	if s.parked != nil {
		s.id, s.parked.program = spec.ID, spec.Program
		a.pool.Record(s.runtime.Name, s.limits.RAM, s.parked.cold)
	}
	return s, nil
}

// fresh starts a sandbox for which none stood ready. Where a zygote is at hand, its interpreter is forked for the program at
// once, which takes less than to start one. A zygote that fails costs the run time, and nothing else.
func (a *ahead) fresh(ctx context.Context, spec backends.Spec, r recipe, why string) (*sandbox, error) {
	s, err := a.backend.plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	spawn := a.spawn
	if r.language == "python" && a.zygotes.Ready(scriptKind(s.runtime, r.script)) {
		spawn = a.forker(r.script, new(error))
	}
	if err = s.start(ctx, spawn); err == nil && s.mother() != nil {
		err = a.park(ctx, s, r)
	}
	if err != nil {
		z := s.mother()
		s.Close()
		var refusal *backends.Refusal
		if z == nil || ctx.Err() != nil || errors.As(err, &refusal) {
			return nil, a.backend.diagnose(s, err)
		}
		a.zygotes.Drop(z, err)
		why = "a Python could not be forked: " + err.Error()
		if s, err = a.backend.startNew(ctx, spec, a.spawn); err != nil {
			return nil, err
		}
	}
	if s.parked == nil && why != "" {
		s.parked = &parked{cold: why}
	}
	return s, nil
}

// stand makes a sandbox whose interpreter waits for a program. note is why no zygote bore it that should have.
func (a *ahead) stand(ctx context.Context, r recipe) (s *sandbox, note, err error) {
	ctx, cancel := a.backend.starting(ctx)
	defer cancel()
	s, note, err = a.standBy(ctx, r, r.language == "python")
	if err == nil || s == nil {
		return s, note, err
	}
	z := s.mother()
	s.Close()
	if z == nil || ctx.Err() != nil {
		return nil, nil, err
	}
	a.zygotes.Drop(z, err)
	note = err
	if s, _, err = a.standBy(ctx, r, false); err != nil && s != nil {
		s.Close()
	}
	return s, note, err
}

// standBy makes one, by a zygote if that is asked for and there is one. A sandbox that comes with an error has to be closed.
func (a *ahead) standBy(ctx context.Context, r recipe, held bool) (s *sandbox, note, err error) {
	if s, err = a.backend.plan(ctx, r.spec()); err != nil {
		return nil, nil, err
	}
	spawn := a.spawn
	if held {
		spawn = a.forker(r.script, &note)
	} else if r.dressed() && !dresses {
		return nil, nil, errUndressed
	}
	if err = s.start(ctx, spawn); err != nil {
		return s, nil, err
	}
	if !s.foreign && r.dressed() && !dresses {
		return s, nil, cmp.Or(note, errUndressed)
	}
	return s, note, a.park(ctx, s, r)
}

// spawn gives a sandbox a PID 1 that was made ahead, or by a nest.
func (a *ahead) spawn(ctx context.Context, s *sandbox) (*birth, error) {
	switch {
	case s.shared():
		return a.backend.spawn(ctx, s)
	case s.plain():
		return a.spares.Take(ctx, shows(s.runtime), a.hatcher(s.runtime))
	}
	return a.spares.Take(ctx, "any", func(ctx context.Context) (*birth, error) { return a.backend.spawn(ctx, s) })
}

// forker gives a sandbox a PID 1 that a zygote has borne for a script, or another where none can be had: note is why.
func (a *ahead) forker(script string, note *error) spawner {
	return func(ctx context.Context, s *sandbox) (child *birth, err error) {
		if s.plain() {
			if child, *note = a.fork(ctx, s.runtime, script); *note == nil {
				return child, nil
			}
		}
		return a.spawn(ctx, s)
	}
}

// hatcher makes PID 1s for sandboxes that show of the host what all show, and a runtime.
func (a *ahead) hatcher(r runtimes.Runtime) func(context.Context) (*birth, error) {
	return func(ctx context.Context) (*birth, error) { return a.bearIn(ctx, r) }
}
