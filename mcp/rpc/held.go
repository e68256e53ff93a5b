package rpc

import "sync/atomic"

// heldBytes counts the bytes that running requests of a client on standard input hold in memory. Package door counts
// those of HTTP clients.
type heldBytes struct {
	max   int64
	taken atomic.Int64
}

// reserve adds n bytes if there is room, which there always is for the first request. The caller releases them.
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

// release subtracts reserved bytes.
func (b *heldBytes) release(n int64) {
	if b != nil {
		b.taken.Add(-n)
	}
}
