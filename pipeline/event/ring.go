package event

// Bounds of the events that a bus remembers.
const (
	ringLength = 1000
	ringBytes  = 4 << 20
)

// ring holds the last events, the oldest first.
type ring struct {
	events []remembered
	bytes  int
}

type remembered struct {
	Event
	size int
}

func (r *ring) add(e Event, size int) {
	for len(r.events) > 0 && (len(r.events) == ringLength || r.bytes+size > ringBytes) {
		r.bytes -= r.events[0].size
		r.events[0] = remembered{} // release it: the array stays
		r.events = r.events[1:]
	}
	r.events = append(r.events, remembered{e, size})
	r.bytes += size
}

// since returns the events after number seq that match f, and the number of later events that are forgotten, of all
// namespaces and kinds.
func (r *ring) since(seq uint64, f Filter) (list []Event, forgotten uint64) {
	if len(r.events) > 0 && r.events[0].Seq > seq+1 {
		forgotten = r.events[0].Seq - seq - 1
	}
	for _, e := range r.events {
		if e.Seq > seq && f.matches(e.Event) {
			list = append(list, e.Event)
		}
	}
	return list, forgotten
}
