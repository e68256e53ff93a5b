package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
)

// Start implements [backends.Backend]. It takes a container that was started ahead, if one fits.
func (b *Backend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	done, err := b.use()
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := b.within(ctx)
	defer cancel()
	ctx, stop := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("%s did not start a container within %v", b.Name(), startTime))
	defer stop()
	s, err := b.start(ctx, spec)
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// languageFor is the language whose image is likely to have a program.
func languageFor(c *backends.Command) string {
	if c == nil || len(c.Args) == 0 {
		return "shell"
	}
	switch path.Base(c.Args[0]) {
	case "python", "python3", "pip", "pip3", "pytest":
		return "python"
	case "node", "npm", "npx", "corepack", "yarn":
		return "node"
	case "R", "Rscript":
		return "r"
	}
	return "shell"
}

func (b *Backend) start(ctx context.Context, spec backends.Spec) (*sandbox, error) {
	if spec.Language == backends.AnyProgram {
		spec.Language = languageFor(spec.Program)
	}
	p, err := b.plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	if b.config.Ahead <= 0 {
		return b.anew(ctx, p, spec)
	}
	if p.cold = p.whyCold(spec); p.cold != "" {
		b.parked.count(spec, p.cold)
		return b.anew(ctx, p, spec)
	}
	s, err := b.ahead(ctx, p, spec)
	if err == nil && s == nil {
		p.cold = "none stood ready"
		s, err = b.anew(ctx, p, spec)
	}
	if err != nil {
		return nil, err
	}
	b.parked.count(spec, p.cold)
	s.follow(func() { b.refill(p) })
	return s, nil
}

// anew starts a sandbox in a container of its own, if need be in two attempts.
func (b *Backend) anew(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	if p.image.ID == "" {
		if err := b.find(ctx, p, b.config.Pull); err != nil {
			return nil, err
		}
	}
	s, err := b.fresh(ctx, p, spec, false)
	if err != nil && transient(err) && ctx.Err() == nil {
		p.binary.unseed() // somebody may have removed the volume, and the engine put an empty one in its place
		s, err = b.fresh(ctx, p, spec, true)
	}
	return s, err
}

// ahead starts a sandbox in a container that was started ahead, while the engine says whether the image that has
// the language's name is still the one that it had last: programs begin in no other. nil is that there is none.
func (b *Backend) ahead(ctx context.Context, p *plan, spec backends.Spec) (s *sandbox, err error) {
	now := *p
	found := make(chan error, 1)
	go func() { found <- b.find(ctx, &now, b.config.Pull) }()
	last, known := b.parked.last(spec.Language)
	if known {
		p.image, p.title = last.image, last.title
		s, err = b.unpark(ctx, p, spec)
	}
	if failed := <-found; failed != nil || err != nil {
		if s != nil {
			s.Close()
		}
		return nil, cmp.Or(failed, err)
	}
	b.parked.saw(spec.Language, named{now.image, now.title})
	if known && now.image.ID == p.image.ID {
		return s, nil
	}
	if s != nil {
		s.Close()
	}
	p.image, p.title, p.warm = now.image, now.title, false
	return b.unpark(ctx, p, spec)
}

// refillAfter is when a container for the next sandbox is started at the latest. To start one keeps the machine busy for
// longer than most programs run, so it waits until the program has ended.
const refillAfter = time.Second

// fresh starts a sandbox in a container of its own.
func (b *Backend) fresh(ctx context.Context, p *plan, spec backends.Spec, listen bool) (*sandbox, error) {
	x, err := b.make(ctx, p, spec.ID, listen)
	if err != nil {
		return nil, err
	}
	s, err := x.open(ctx, p, spec)
	if err != nil {
		x.backend.dispose(x)
		return nil, err
	}
	return s, nil
}

// unpark starts a sandbox in a container that was started ahead. nil is that none would do, and
// then nothing ran in those that were tried.
func (b *Backend) unpark(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	for {
		x := b.parked.take(p.shape())
		if x == nil {
			return nil, nil
		}
		p.warm = true
		s, err := x.openSoon(ctx, p, spec)
		if err == nil {
			return s, nil
		}
		p.warm = false
		x.backend.dispose(x)
		if !transient(err) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// answerTime is how long the init of a container that was started ahead may take to build a sandbox, which takes it
// milliseconds. Somebody may have paused that container.
const answerTime = 5 * time.Second

// openSoon is open for a container in whose place there can be another.
func (x *box) openSoon(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	soon, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s, err := x.open(soon, p, spec)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: its init does not answer", call.ErrLost)
	}
	return s, err
}

// open has the init build the sandbox that spec asks for, if the container has what that requires. What is
// wrong with it is for the caller to remove.
func (x *box) open(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	facts := x.line.Facts()
	if facts.Runtime.Path == "" {
		return nil, &backends.Refusal{Reason: fmt.Sprintf("image %s has no %s: %s", p.title, spec.Language, facts.Runtime.Why),
			Remedy: fmt.Sprintf("sandboxmcp image build --backend %s %s, or name another image under images.%[2]s in the configuration", x.backend.Name(), spec.Language)}
	}
	v := view{facts: facts, info: p.Info, image: p.title, gates: spec.Gateway, keepID: -1}
	if p.Local {
		v.ours = own()
	}
	if x.plan.user.keep {
		v.keepID = x.plan.user.uid
	}
	if err := v.loose(); err != nil {
		return nil, err
	}
	s := &sandbox{box: x, layers: v.layers(), cgroup: v.cgroup(), language: spec.Language, limits: p.spec.Limits, keep: spec.Keep}
	if spec.Program != nil {
		s.warm, s.cold = p.warm, p.cold
	}
	if err := satisfies(spec.Require, append(slices.Clone(s.layers), s.cgroup)); err != nil {
		return nil, err
	}
	inner, err := x.line.Build(ctx, p.spec)
	if err != nil {
		var refusal *backends.Refusal
		if errors.As(err, &refusal) {
			return nil, err
		}
		return nil, fmt.Errorf("build a sandbox in a container of %s: %w", p.title, err)
	}
	s.Sandbox = inner
	if err := x.backend.register(s); err != nil {
		inner.Close()
		return nil, err
	}
	return s, nil
}

// register has Close close s, too.
func (b *Backend) register(s *sandbox) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return errClosed
	}
	b.running[s] = struct{}{}
	return nil
}
