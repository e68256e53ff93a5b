package process

import (
	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Usage implements [backends.Sandbox].
func (s *Sandbox) Usage() backends.Usage {
	done, err := s.use()
	if err != nil {
		return backends.Usage{}
	}
	defer done()
	u := s.sample(true)
	u.Processes, u.Disk = len(s.pids()), s.diskUsed()
	return u
}

// Sample implements [backends.Sandbox].
func (s *Sandbox) Sample(memory bool) func() backends.Usage {
	var u backends.Usage
	if done, err := s.use(); err == nil {
		u = s.sample(memory)
		done()
	}
	return func() backends.Usage { return u }
}

// sample measures CPU and, if memory is true, memory.
func (s *Sandbox) sample(memory bool) (u backends.Usage) {
	u.Lost = s.lost()
	if s.cgroup == nil {
		saw := s.pollProcesses(0, sockstat{})
		u.CPU, u.Memory = saw.cpu, saw.ram
		return u
	}
	u.CPU = s.cgroup.CPU()
	if memory {
		u.Memory = max(0, s.charged())
	}
	return u
}

// Limit implements [backends.Sandbox].
func (s *Sandbox) Limit(l backends.Limits) (backends.Limits, error) {
	done, err := s.use()
	if err != nil {
		return backends.Limits{}, err
	}
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := backends.Limits{RAM: l.RAM}
	if s.cgroup != nil {
		next.CPU, next.Processes = l.CPU, l.Processes
	}
	next = next.Or(s.inForce)
	if err := s.cgroup.Limit(boundsOf(next, uint64(backends.Tasks(s.runtime.Name, next.Processes)))); err != nil {
		return s.inForce, err
	}
	s.inForce = next
	s.ram.Store(next.RAM)
	s.showRAM(next.RAM)
	return next, nil
}
