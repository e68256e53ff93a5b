package packages

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// hostCounters counts who was asked for.
type hostCounters struct {
	mu    sync.Mutex
	hosts map[Host]*counts // by name, port and whether it was allowed
}

type counts struct {
	bytes  atomic.Int64
	times  int
	reason string // of the first request
}

// maxHosts bounds what a program that asks for one after the other can make us remember.
const maxHosts = 500

// count notes a request, and returns where its bytes are counted.
func (t *hostCounters) count(name string, port int, allowed bool, reason string) *atomic.Int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := Host{Name: shorten(name), Port: port, Allowed: allowed}
	c := t.hosts[h]
	if c == nil {
		if len(t.hosts) >= maxHosts {
			h, reason = Host{Name: "others"}, "too many to name"
			c = t.hosts[h]
		}
		if c == nil {
			c = &counts{reason: reason}
			t.hosts[h] = c
		}
	}
	c.times++
	return &c.bytes
}

// list returns all, refused ones last.
func (t *hostCounters) list() []Host {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Host
	for h, c := range t.hosts {
		h.Bytes, h.Count, h.Reason = c.bytes.Load(), c.times, c.reason
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b Host) int {
		if a.Allowed != b.Allowed {
			if a.Allowed {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port))
	})
	return all
}
