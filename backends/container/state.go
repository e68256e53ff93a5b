package container

import (
	"context"
	"fmt"
)

// stateCache is what all containers of a backend stand on, found out once.
type stateCache struct {
	sem   chan struct{} // held by whoever finds out
	known *engineState
}

// engineState is what was found out.
type engineState struct {
	Info
	binary   initBinary
	instance *serverLock
	us       serverUser // who we are
	attach   bool       // talk over attached streams, and mount nothing that is ours from this host
}

func newStateCache() stateCache { return stateCache{sem: make(chan struct{}, 1)} }

// engineState connects to the engine, looks at our own binary and says that we live, unless that has been done.
// What killed servers left is then removed in the background.
func (b *Backend) engineState(ctx context.Context) (*engineState, error) {
	g := &b.state
	select {
	case g.sem <- struct{}{}:
		defer func() { <-g.sem }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if g.known != nil {
		return g.known, nil
	}
	info, err := b.engine.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	s := &engineState{Info: info, us: currentUser(), attach: b.config.Attach || !info.Local || info.SELinux}
	if s.binary, err = findBinary(b.config.Binary, info.Arch); err != nil {
		return nil, err
	}
	if s.instance, err = newServerLock(b.config.StateDir); err != nil {
		return nil, fmt.Errorf("say in %s that this server lives: %w", b.config.StateDir, err)
	}
	g.known = s
	if done, err := b.use(); err == nil {
		go func() {
			defer done()
			b.sweep(b.ctx, s)
		}()
	}
	return s, nil
}

// close lets others see that we are gone. Nobody stands here any more.
func (g *stateCache) close() {
	if g.known != nil {
		g.known.instance.close()
	}
}
