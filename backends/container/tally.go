package container

import "github.com/sandboxmcp/sandboxmcp/backends"

// countProgram notes a program, if there is one, that found a container started ahead, or why it did not.
func (k *pool) countProgram(spec backends.Spec, cold string) {
	if spec.Program == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.counters.Of(spec.Language, spec.Limits.WithDefaults().RAM)
	if cold == "" {
		p.Hits++
		return
	}
	p.Miss(cold)
}

// pools are the figures, with the containers that are parked just now.
func (k *pool) pools() []backends.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ready []backends.Pool
	for of, s := range k.buckets {
		one := backends.Pool{Language: of.language, RAM: of.limits.RAM, Ready: len(s.idle)}
		for _, h := range s.idle {
			one.Memory += h.peer.memory()
		}
		ready = append(ready, one)
	}
	return k.counters.Pools(ready)
}
