package rpc

import "sync/atomic"

// heldBytes is what requests of a client on standard input hold in memory while they are under way. Those over HTTP
// count at the door.
type heldBytes struct {
	max   int64
	taken atomic.Int64
}

// reserve reports whether there is room for n bytes, which there always is for the first ones, and notes them. Who has
// reserved them releases them.
func (b *heldBytes) reserve(n int64) bool {
	if b == nil {
		return true
	}
	if all := b.taken.Add(n); all > b.max && all > n {
		b.release(n)
		return false
	}
	return true
}

// release gives back what was reserved.
func (b *heldBytes) release(n int64) {
	if b != nil {
		b.taken.Add(-n)
	}
}
