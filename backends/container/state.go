package container

import (
	"context"
	"fmt"
)

// stateCache keeps the engineState, which is found out once.
type stateCache struct {
	sem   chan struct{} // semaphore: held while finding out
	known *engineState
}

// engineState is what all containers of a backend need to know of the engine and of this server.
type engineState struct {
	Info
	binary   initBinary
	instance *serverLock
	us       serverUser // the user of this server
	attach   bool       // use attached streams, and mount nothing of ours from this host
}

func newStateCache() stateCache { return stateCache{sem: make(chan struct{}, 1)} }

// engineState connects to the engine, checks our own binary and takes the server's lock, once. What killed servers left
// is then removed in the background.
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

// close releases the lock, so that other servers see that this one has ended. No container may be left.
func (g *stateCache) close() {
	if g.known != nil {
		g.known.instance.close()
	}
}
