package packages

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// hostCounters counts requests and bytes by host.
type hostCounters struct {
	mu    sync.Mutex
	hosts map[egress.Decision]*counts // by name, port and whether it was allowed
}

// counts are the requests to one host and port with one decision.
type counts struct {
	bytes  atomic.Int64
	times  int64
	reason string // of the first request
}

// maxHosts bounds the hosts that are counted by name, since a program may ask for any number; the others are counted together.
const maxHosts = 500

// count counts a request, and returns the counter for its bytes.
func (t *hostCounters) count(name string, port int, allowed bool, reason string) *atomic.Int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := egress.Decision{Name: shorten(name), Port: port, Allowed: allowed}
	c := t.hosts[h]
	if c == nil {
		if len(t.hosts) >= maxHosts {
			h, reason = egress.Decision{Name: "others"}, "too many to name"
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

// list returns the records of all hosts, refused ones last, sorted by name and port.
func (t *hostCounters) list() []egress.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []egress.Record
	for h, c := range t.hosts {
		h.Reason = c.reason
		all = append(all, egress.Record{Decision: h, Count: c.times, Received: c.bytes.Load()})
	}
	slices.SortFunc(all, func(a, b egress.Record) int {
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
