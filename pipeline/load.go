package pipeline

import (
	"cmp"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Load counts the slots and the waiting requests of a queue. Slots are what runs take while they run: one each, and more where one may
// use several cores.
type Load struct {
	Slots      int             `json:"slots"`
	Running    int             `json:"running"` // slots that are taken
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
	l := Load{Slots: q.slots, Running: q.slots - q.free, Waiting: q.waiting, Room: q.room, Namespaces: []NamespaceLoad{}}
	for namespace, n := range q.taken {
		l.Namespaces = append(l.Namespaces, NamespaceLoad{namespace, n, len(q.waiters[namespace])})
	}
	for namespace, line := range q.waiters {
		if q.taken[namespace] == 0 {
			l.Namespaces = append(l.Namespaces, NamespaceLoad{namespace, 0, len(line)})
		}
	}
	slices.SortFunc(l.Namespaces, func(a, b NamespaceLoad) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return l
}

// take assigns slots to a namespace. The caller holds the lock, as for release.
func (q *Queue) take(namespace string, weight int) {
	q.free -= weight
	q.taken[namespace] += weight
}

// release gives slots back. The caller holds the lock.
func (q *Queue) release(namespace string, weight int) {
	q.free += weight
	if q.taken[namespace] -= weight; q.taken[namespace] == 0 {
		delete(q.taken, namespace)
	}
}
