package container

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// kind is what Pools tells apart.
type kind struct {
	language string
	ram      int64
}

// mostKinds bounds what is remembered: callers choose how much RAM a program may have.
const mostKinds = 64

// count notes a program, if there is one, that found a container started ahead, or why it did not.
func (k *parked) count(spec backends.Spec, cold string) {
	if spec.Program == nil {
		return
	}
	of := kind{spec.Language, spec.Limits.WithDefaults().RAM}
	k.mu.Lock()
	defer k.mu.Unlock()
	tally := k.tallies[of]
	if tally == nil {
		if len(k.tallies) >= mostKinds {
			return
		}
		tally = &backends.Pool{Language: of.language, RAM: of.ram}
		k.tallies[of] = tally
	}
	if cold == "" {
		tally.Hits++
		return
	}
	tally.Miss(cold)
}

// pools are the figures, by language.
func (k *parked) pools() []backends.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[kind]backends.Pool{}
	for of, tally := range k.tallies {
		one := *tally
		one.Cold = maps.Clone(one.Cold)
		all[of] = one
	}
	for of, s := range k.shelves {
		one := all[kind{of.language, of.limits.RAM}]
		one.Language, one.RAM = of.language, of.limits.RAM
		one.Ready += len(s.boxes)
		for _, x := range s.boxes {
			one.Memory += x.peer.memory()
		}
		all[kind{of.language, of.limits.RAM}] = one
	}
	return slices.SortedFunc(maps.Values(all), func(a, b backends.Pool) int {
		return cmp.Or(cmp.Compare(a.Language, b.Language), cmp.Compare(a.RAM, b.RAM))
	})
}
