package container

import (
	"context"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// probeCache keeps what a probe found: callers may ask as often as they like, and each answer takes a container
// for each image.
type probeCache struct {
	sem     chan struct{} // held by whoever probes
	entries map[string]cachedProbe
}

type cachedProbe struct {
	probe backends.Probe
	at    time.Time
}

// probeCacheTTL is how long an answer is good, if nothing was missing. A new image shows up after that.
const probeCacheTTL = time.Minute

func newProbeCache() probeCache {
	return probeCache{sem: make(chan struct{}, 1), entries: map[string]cachedProbe{}}
}

// Probe implements [backends.Backend]. One probe is under way at a time.
func (b *Backend) Probe(ctx context.Context, spec backends.Spec) (backends.Probe, error) {
	done, err := b.use()
	if err != nil {
		return backends.Probe{Backend: b.Name()}, err
	}
	defer done()
	ctx, cancel := b.withBackend(ctx)
	defer cancel()
	select {
	case b.probes.sem <- struct{}{}:
		defer func() { <-b.probes.sem }()
	case <-ctx.Done():
		return backends.Probe{Backend: b.Name()}, context.Cause(ctx)
	}
	key := fmt.Sprint(spec.Profile, spec.Require, spec.Limits)
	if f, known := b.probes.entries[key]; known && time.Since(f.at) < probeCacheTTL {
		return f.probe, nil
	}
	p, err := b.probe(ctx, spec)
	if err == nil && p.Usable && ctx.Err() == nil {
		if len(b.probes.entries) > 16 {
			clear(b.probes.entries)
		}
		b.probes.entries[key] = cachedProbe{p, time.Now()}
	}
	return p, err
}
