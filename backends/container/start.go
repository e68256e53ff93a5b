package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Start implements [backends.Backend]. It uses a container of the pool, if one fits.
func (b *Backend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	done, err := b.keepOpen()
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := b.withBackend(ctx)
	defer cancel()
	ctx, stop := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s did not start a container within %v", b.Name(), startTimeout))
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

// languageFor returns the language whose image is likely to contain a program.
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
		return b.startCold(ctx, p, spec)
	}
	if p.cold = p.coldReason(spec); p.cold != "" {
		b.countProgram(spec, p.cold)
		return b.startCold(ctx, p, spec)
	}
	s, err := b.startWarm(ctx, p, spec)
	if err == nil && s == nil {
		s, err = b.startCold(ctx, p, spec)
	}
	if err != nil {
		return nil, err
	}
	b.countProgram(spec, p.cold)
	return s, nil
}

// startCold starts a sandbox in a new container, with one retry, or as many as it takes until the engine has room.
func (b *Backend) startCold(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	if p.image.ID == "" {
		if err := b.findImage(ctx, p, b.config.Pull); err != nil {
			return nil, err
		}
	}
	s, err := b.startOnce(ctx, p, spec, false)
	for errors.Is(err, ErrFull) && b.makeRoom(ctx) {
		s, err = b.startOnce(ctx, p, spec, false)
	}
	if err != nil && isTransient(err) && ctx.Err() == nil {
		p.forgetSeed() // the volume may have been removed, and replaced by an empty one
		s, err = b.startOnce(ctx, p, spec, true)
	}
	return s, err
}

// startWarm starts a sandbox in an idle container, while the engine confirms that the language still has the image
// of the last lookup: programs start in no other. It returns nil if there is no such container.
func (b *Backend) startWarm(ctx context.Context, p *plan, spec backends.Spec) (s *sandbox, err error) {
	now := *p
	found := make(chan error, 1)
	go func() { found <- b.findImage(ctx, &now, b.config.Pull) }()
	last, known := b.images.Load(spec.Language)
	if known {
		p.image, p.title = last.(namedImage).image, last.(namedImage).title
		s, err = b.startIdle(ctx, p, spec)
	}
	if failed := <-found; failed != nil || err != nil {
		if s != nil {
			s.Close()
		}
		return nil, cmp.Or(failed, err)
	}
	b.images.Store(spec.Language, namedImage{now.image, now.title})
	if known && now.image.ID == p.image.ID {
		return s, nil
	}
	b.mu.Lock()
	delete(b.plans, p.poolKey()) // otherwise the pool would create more with the old image
	b.mu.Unlock()
	if s != nil {
		s.Close() // also refills the pool
	}
	p.image, p.title, p.warm = now.image, now.title, false
	return b.startIdle(ctx, p, spec)
}

// refillAfter bounds the wait before a container for the next sandbox is started. Starting one occupies the machine
// for longer than most programs run, so it waits until the program has ended.
const refillAfter = time.Second

// startOnce starts a sandbox in a new container.
func (b *Backend) startOnce(ctx context.Context, p *plan, spec backends.Spec, listen bool) (*sandbox, error) {
	h, err := b.launch(ctx, p, spec.ID, listen)
	if err != nil {
		return nil, err
	}
	s, err := h.open(ctx, p, spec)
	if err != nil {
		h.backend.removeLater(h)
		return nil, err
	}
	return s, nil
}

// startIdle starts a sandbox in a container of the pool, or of another server's pool. It returns nil if none is
// usable; nothing has run in the tried ones.
func (b *Backend) startIdle(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	for {
		h, err := b.acquireIdle(ctx, p, spec)
		if h == nil || err != nil {
			return nil, err
		}
		p.warm, p.cold = true, ""
		s, err := h.openWarm(ctx, p, spec)
		if err == nil {
			return s, nil
		}
		p.warm = false
		h.backend.removeLater(h)
		if !isTransient(err) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// acquireIdle returns an idle container that belongs to this server alone; nil if there is none, with the reason in
// p.cold.
func (b *Backend) acquireIdle(ctx context.Context, p *plan, spec backends.Spec) (*initHandle, error) {
	shared, is := b.engine.(Shared)
	for {
		h, why := b.leaseIdle(p)
		switch {
		case h == nil && is:
			p.cold = why
			return b.leaseOther(ctx, p, spec, shared)
		case h == nil || !is:
			p.cold = why
			return h, nil
		}
		err := shared.Reserve(ctx, h.id, map[string]string{LabelID: spec.ID})
		if err == nil {
			return h, nil
		}
		b.removeLater(h)
		if !errors.Is(err, ErrTaken) {
			return nil, err
		}
	}
}

// leaseOther claims an idle container of another server; nil if there is none, or if it can't be reached.
func (b *Backend) leaseOther(ctx context.Context, p *plan, spec backends.Spec, shared Shared) (*initHandle, error) {
	model := *p
	model.idle = true
	h, err := b.obtain(ctx, p, func(h *initHandle) (err error) {
		h.id, err = shared.LeaseIdle(ctx, model.container(h.name, spec.ID, nil, ""))
		if h.id == "" || err != nil {
			return cmp.Or(err, ErrTaken)
		}
		h.name, h.createSent = h.id, true
		return h.connect(ctx, true)
	})
	if err != nil && ctx.Err() == nil {
		return nil, nil
	}
	return h, err
}

// warmOpenTimeout bounds the time in which an idle container's init builds a sandbox, which usually takes
// milliseconds. Somebody may have paused the container.
const warmOpenTimeout = 5 * time.Second

// openWarm is open with warmOpenTimeout, for a container that can be replaced by another.
func (h *initHandle) openWarm(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	soon, cancel := context.WithTimeout(ctx, warmOpenTimeout)
	defer cancel()
	s, err := h.open(soon, p, spec)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: its init does not answer", call.ErrLost)
	}
	return s, err
}

// open has the init build spec's sandbox, if the container has the layers that spec requires. After an error, the
// caller removes the container.
func (h *initHandle) open(ctx context.Context, p *plan, spec backends.Spec) (*sandbox, error) {
	facts := h.conn.Facts()
	if facts.Runtime.Path == "" {
		return nil, backends.Refuse(fmt.Sprintf("image %s has no %s: %s", p.title, spec.Language, facts.Runtime.Why),
			remedy.Command.With("sandboxmcp image build --backend "+h.backend.Name()+" "+spec.Language), ", or name another image under ",
			remedy.Setting.With("images."+spec.Language))
	}
	v := evidence{facts: facts, info: p.Info, image: p.title, ports: spec.Gateway, keepID: -1}
	if e, is := h.backend.engine.(Placed); is {
		v.image = e.Place(h.id)
	}
	if p.Local {
		v.ownNamespaces = ownNamespaces()
	}
	if h.plan.user.keep {
		v.keepID = h.plan.user.uid
	}
	if err := v.checkInit(); err != nil {
		return nil, err
	}
	s := &sandbox{handle: h, layers: v.layers(), cgroup: v.cgroup(), language: spec.Language, limits: p.spec.Limits, keep: spec.Keep,
		refill: sync.OnceFunc(h.backend.pool.Fill)}
	if spec.Program != nil {
		s.warm, s.cold = p.warm, p.cold
	}
	if err := p.checkRequired(spec.Require, append(slices.Clone(s.layers), s.cgroup)); err != nil {
		return nil, err
	}
	inner, err := h.conn.Build(ctx, p.spec)
	if err != nil {
		if errors.As(err, new(*backends.Refusal)) {
			return nil, err
		}
		return nil, fmt.Errorf("build a sandbox in a container of %s: %w", p.title, err)
	}
	s.Sandbox = inner
	if spec.Workspace.Propose {
		if s.proposal, err = h.copyWorkspace(ctx, spec); err != nil {
			inner.Close()
			return nil, err
		}
	}
	if err := h.backend.register(s); err != nil {
		inner.Close()
		return nil, err
	}
	return s, nil
}

// register adds s to the sandboxes that Backend.Close closes.
func (b *Backend) register(s *sandbox) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return errClosed
	}
	b.running[s] = struct{}{}
	return nil
}
