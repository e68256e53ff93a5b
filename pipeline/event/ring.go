package event

// What a bus remembers: the last events, in number and in bytes.
const (
	ringLength = 1000
	ringBytes  = 4 << 20
)

// ring holds the last events, the oldest first from head on.
type ring struct {
	events [ringLength]Event
	sizes  [ringLength]int
	head   int // of the oldest
	length int
	bytes  int
}

func (r *ring) add(e Event, size int) {
	for r.length > 0 && (r.length == ringLength || r.bytes+size > ringBytes) {
		r.events[r.head] = Event{}
		r.bytes -= r.sizes[r.head]
		r.head = (r.head + 1) % ringLength
		r.length--
	}
	i := (r.head + r.length) % ringLength
	r.events[i], r.sizes[i] = e, size
	r.length++
	r.bytes += size
}

// since returns the events after number seq that f wants, and how many after it are forgotten,
// of all namespaces and kinds.
func (r *ring) since(seq uint64, f Filter) (list []Event, forgotten uint64) {
	for i := range r.length {
		e := r.events[(r.head+i)%ringLength]
		if i == 0 && e.Seq > seq+1 {
			forgotten = e.Seq - seq - 1
		}
		if e.Seq > seq && f.wants(e) {
			list = append(list, e)
		}
	}
	return list, forgotten
}
