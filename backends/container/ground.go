package container

import (
	"context"
	"fmt"
)

// ground is what all containers of a backend stand on, found out once.
type ground struct {
	turn  chan struct{} // held by whoever finds out
	known *standing
}

// standing is what was found out.
type standing struct {
	Info
	binary   executable
	instance *instance
	us       server // who we are
	attach   bool   // talk over attached streams, and mount nothing that is ours from this host
}

func newGround() ground { return ground{turn: make(chan struct{}, 1)} }

// stand connects to the engine, looks at our own binary and says that we live, unless that has been done.
// What killed servers left is then removed in the background.
func (b *Backend) stand(ctx context.Context) (*standing, error) {
	g := &b.ground
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
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
	s := &standing{Info: info, us: whoWeAre(), attach: b.config.Attach || !info.Local || info.SELinux}
	if s.binary, err = findBinary(b.config.Binary, info.Arch); err != nil {
		return nil, err
	}
	if s.instance, err = newInstance(b.config.StateDir); err != nil {
		return nil, fmt.Errorf("say in %s that this server lives: %w", b.config.StateDir, err)
	}
	g.known = s
	if done, err := b.use(); err == nil {
		go func() {
			defer done()
			b.sweep(b.life, s)
		}()
	}
	return s, nil
}

// close lets others see that we are gone. Nobody stands here any more.
func (g *ground) close() {
	if g.known != nil {
		g.known.instance.close()
	}
}
