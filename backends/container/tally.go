package container

import "github.com/sandboxmcp/sandboxmcp/backends"

// count notes a program, if there is one, that found a container started ahead, or why it did not.
func (k *parked) count(spec backends.Spec, cold string) {
	if spec.Program == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.tally.Of(spec.Language, spec.Limits.WithDefaults().RAM)
	if cold == "" {
		p.Hits++
		return
	}
	p.Miss(cold)
}

// pools are the figures, with the containers that are parked just now.
func (k *parked) pools() []backends.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ready []backends.Pool
	for of, s := range k.shelves {
		one := backends.Pool{Language: of.language, RAM: of.limits.RAM, Ready: len(s.boxes)}
		for _, x := range s.boxes {
			one.Memory += x.peer.memory()
		}
		ready = append(ready, one)
	}
	return k.tally.Pools(ready)
}
