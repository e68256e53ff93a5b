package pipeline

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Load counts the slots and the waiting requests of a queue. Slots are what runs take while they run: one each, and more where one may
// use several cores.
type Load struct {
	Slots      int             `json:"slots"`
	Running    int             `json:"running"` // slots that are taken; more than Slots while some run for long and others have less than their share
	Waiting    int             `json:"waiting"` // requests
	Room       int             `json:"room"`    // how many requests may wait
	Namespaces []NamespaceLoad `json:"namespaces"`
}

// NamespaceLoad counts the slots and the waiting requests of one namespace.
type NamespaceLoad struct {
	Namespace string `json:"namespace"`
	Running   int    `json:"running"` // slots
	Waiting   int    `json:"waiting"` // requests
}

// Load returns the load of the queue, namespaces by name; those that have nothing in it are left out.
func (p *Pipeline) Load() Load { return p.cfg.Queue.detail() }

// Of returns the load of some namespaces. Slots and Room are those of the whole queue.
func (l Load) Of(counts func(namespace string) bool) Load {
	own := Load{Slots: l.Slots, Room: l.Room, Namespaces: []NamespaceLoad{}}
	for _, n := range l.Namespaces {
		if counts(n.Namespace) {
			own.Running, own.Waiting, own.Namespaces = own.Running+n.Running, own.Waiting+n.Waiting, append(own.Namespaces, n)
		}
	}
	return own
}

// Free reports whether a run with these limits could start at once.
func (p *Pipeline) Free(l backends.Limits) bool {
	l.CPU = cmp.Or(l.CPU, p.cfg.Limits.CPU)
	now := p.Load()
	return now.Waiting == 0 && now.Running+min(max(weight(l), 1), now.Slots) <= now.Slots
}

func (q *Queue) detail() Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := Load{Slots: q.slots, Running: q.taken, Waiting: q.waiting, Room: q.room, Namespaces: []NamespaceLoad{}}
	all := map[string]NamespaceLoad{} // of all parties
	for _, p := range q.parties {
		for name, line := range p.lines {
			all[name] = NamespaceLoad{name, all[name].Running + line.taken, all[name].Waiting + len(line.waiters)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.Namespaces = append(l.Namespaces, all[name])
	}
	return l
}
