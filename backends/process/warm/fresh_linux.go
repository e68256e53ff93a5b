package warm

import (
	"context"
	"errors"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// startFresh starts a sandbox when none was idle. If a zygote is ready, its interpreter is forked for the program
// at once, which is faster than a start. A failing zygote only costs time.
func (b *Backend) startFresh(ctx context.Context, spec backends.Spec, r poolKey, why string) (*sandbox, error) {
	if r.language == "python" && r.script != "" {
		s, err := b.forkIdle(ctx, spec, r, false)
		if s != nil {
			return s, nil
		}
		if err != nil {
			why = "a Python could not be forked: " + err.Error()
		}
	}
	s, err := b.startCold(ctx, spec)
	if err == nil && why != "" {
		s.setIdle(&idleProcess{cold: why})
	}
	return s, err
}

// newIdle makes an idle sandbox. Only in containers, which have no zygotes, an idle Python is not a fork: its /proc
// shows the arguments of its start.
func (b *Backend) newIdle(ctx context.Context, r poolKey) (s *sandbox, err error) {
	ctx, cancel := b.WithDeadline(ctx)
	defer cancel()
	if r.language == "python" && !b.Inside() {
		if s, err = b.forkIdle(ctx, r.spec(), r, true); s == nil && err == nil {
			err = errors.New("this Python can't be forked")
		}
		return s, err
	}
	if s, err = b.startCold(ctx, r.spec()); err == nil {
		if err = b.startIdle(ctx, s, r); err != nil {
			s.Close()
		}
	}
	return s, err
}

// forkIdle makes a sandbox whose PID 1 and interpreter a zygote forks, and in which the interpreter waits. Both
// results are nil if no zygote can do that, or if one would have to be started first and start is false.
func (b *Backend) forkIdle(ctx context.Context, spec backends.Spec, r poolKey, start bool) (*sandbox, error) {
	s, err := b.newSandbox(ctx, spec)
	if err != nil || !s.HostIndependent() || !start && !b.zygotes.Ready(scriptKind(s.Runtime(), r.script)) {
		return nil, err
	}
	err = s.Launch(ctx, func(ctx context.Context, _ *process.Sandbox) (child *process.Init, err error) {
		child, s.zygote, err = b.spawnByZygote(ctx, s.Runtime(), r.script)
		return child, err
	})
	if err == nil {
		err = b.startIdle(ctx, s, r)
	}
	if err == nil {
		return s, nil
	}
	s.Close()
	if z := s.zygote; z != nil && ctx.Err() == nil && !errors.As(err, new(*backends.Refusal)) {
		b.zygotes.Drop(z, err)
	}
	return nil, err
}
