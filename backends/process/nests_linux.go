package process

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// nests are those of a backend: for each root that differs as many as were at work at the same time.
type nests struct {
	backend *Backend
	mu      sync.Mutex
	warm    map[string][]*nest // by what they show
	coming  starts
	failed  map[string]time.Time // when one could not be started
	closed  bool
}

// of returns a nest for a runtime, for one birth: the first that has nothing to do, or another where all are at work
// and there are fewer than CPUs. One that has died, or no longer shows the host as it is, is replaced. Who calls it
// must leave the nest when it is done.
func (n *nests) of(ctx context.Context, r runtimes.Runtime) (*nest, error) {
	name := shows(r)
	for {
		n.mu.Lock()
		one, err := n.standing(name)
		if one != nil || err != nil {
			n.mu.Unlock()
			return one, err
		}
		other := n.coming[name]
		if other == nil {
			begun := n.coming.begin(ctx, name)
			n.mu.Unlock()
			one, err = n.backend.startNest(begun, r)
			return n.add(begun, name, one, err)
		}
		n.mu.Unlock()
		if err := other.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// standing returns a nest that shows what name says, or why none can be had; neither where one is to be started.
// The caller has locked.
func (n *nests) standing(name string) (*nest, error) {
	if n.closed {
		return nil, errClosed
	}
	for _, old := range slices.Clone(n.warm[name]) {
		if !old.good() {
			n.forget(old)
		} else if old.busy.Load() == 0 && old.enter() {
			return old, nil
		}
	}
	if list := n.warm[name]; len(list) >= runtime.NumCPU() || len(list) > 0 && n.coming[name] != nil {
		one := list[rand.N(len(list))]
		one.enter()
		return one, nil
	}
	const patience = time.Minute
	if failed, ok := n.failed[name]; ok && time.Since(failed) < patience {
		return nil, errors.New("no nest could be started a moment ago")
	}
	return nil, nil
}

// add keeps what has been started, or remembers that it failed.
func (n *nests) add(ctx context.Context, name string, one *nest, err error) (*nest, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	cancelled := ctx.Err() != nil
	n.coming.end(name)
	switch {
	case err != nil:
		if !cancelled {
			n.failed[name] = time.Now()
		}
		return nil, err
	case n.closed:
		one.remove()
		return nil, errClosed
	}
	one.enter()
	n.warm[name] = append(n.warm[name], one)
	return one, nil
}

// forget gives a nest up, which ends with the last of its sandboxes.
func (n *nests) forget(bad *nest) {
	for name, list := range n.warm {
		n.warm[name] = slices.DeleteFunc(list, func(one *nest) bool { return one == bad })
	}
	bad.retire()
}

// current says whether a birth comes from a nest from which another would come now.
func (n *nests) current(b *birth) bool {
	if b.nest == nil {
		return true
	}
	b.nest.mu.Lock()
	retired := b.nest.retired
	b.nest.mu.Unlock()
	return !retired && b.nest.good()
}

// drop gives a nest up that does not answer.
func (n *nests) drop(bad *nest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(bad)
}

// close ends the nests, and what is left of their sandboxes.
func (n *nests) close() {
	n.mu.Lock()
	n.closed = true
	for _, list := range n.warm {
		for _, one := range list {
			one.remove()
		}
	}
	n.warm = nil
	coming := n.coming.cancel()
	n.mu.Unlock()
	for _, one := range coming {
		<-one.over
	}
}
