package status

import (
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Pool counts the idle sandboxes of one backend and language, with any limits.
type Pool struct {
	Backend string `json:"backend"`
	backends.Pool
}

// HitRate returns the share of programs that found an idle sandbox, 0 without programs.
func (p Pool) HitRate() float64 {
	if p.Hits+p.Misses == 0 {
		return 0
	}
	return float64(p.Hits) / float64(p.Hits+p.Misses)
}

// pools adds up the pools of all backends regardless of limits: callers choose those, so there may be many.
func pools(p *pipeline.Pipeline) (all []Pool) {
	for _, b := range p.Config.Backends {
		for _, one := range b.Pools() {
			i := slices.IndexFunc(all, func(has Pool) bool { return has.Backend == b.Name() && has.Language == one.Language })
			if i < 0 {
				i = len(all)
				all = append(all, Pool{b.Name(), backends.Pool{Language: one.Language}})
			}
			all[i].add(one)
		}
	}
	return all
}

func (p *Pool) add(one backends.Pool) {
	p.Ready += one.Ready
	p.Memory += one.Memory
	p.Hits += one.Hits
	p.Misses += one.Misses
	for reason, n := range one.Cold {
		if p.Cold == nil {
			p.Cold = map[string]int64{}
		}
		p.Cold[reason] += n
	}
}
