package pipeline

import (
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Usage tells what a living session of a namespace uses now. It waits for no cell.
func (p *Pipeline) Usage(namespace, id string) (session.Usage, error) {
	s, err := p.own(namespace, id)
	if err != nil {
		return session.Usage{}, err
	}
	return usageOf(s.Sandbox().Usage()), nil
}

func usageOf(u backends.Usage) session.Usage {
	return session.Usage{MemoryBytes: u.Memory, DiskBytes: u.Disk, CPUSeconds: u.CPU.Seconds(), Processes: u.Processes}
}
