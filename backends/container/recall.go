package container

import (
	"context"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// recall keeps what a probe found: callers may ask as often as they like, and each answer takes a container
// for each image.
type recall struct {
	turn chan struct{} // held by whoever probes
	last map[string]found
}

type found struct {
	probe backends.Probe
	at    time.Time
}

// recallFor is how long an answer is good, if nothing was missing. A new image shows up after that.
const recallFor = time.Minute

func newRecall() recall { return recall{turn: make(chan struct{}, 1), last: map[string]found{}} }

// Probe implements [backends.Backend]. One probe is under way at a time.
func (b *Backend) Probe(ctx context.Context, spec backends.Spec) (backends.Probe, error) {
	done, err := b.use()
	if err != nil {
		return backends.Probe{Backend: b.Name()}, err
	}
	defer done()
	ctx, cancel := b.within(ctx)
	defer cancel()
	select {
	case b.recall.turn <- struct{}{}:
		defer func() { <-b.recall.turn }()
	case <-ctx.Done():
		return backends.Probe{Backend: b.Name()}, context.Cause(ctx)
	}
	key := fmt.Sprint(spec.Profile, spec.Require, spec.Limits)
	if f, known := b.recall.last[key]; known && time.Since(f.at) < recallFor {
		return f.probe, nil
	}
	p, err := b.probe(ctx, spec)
	if err == nil && p.Usable && ctx.Err() == nil {
		if len(b.recall.last) > 16 {
			clear(b.recall.last)
		}
		b.recall.last[key] = found{p, time.Now()}
	}
	return p, err
}
