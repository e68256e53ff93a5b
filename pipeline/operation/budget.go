package operation

import "sync/atomic"

// A Budget is what requests under way take of some bytes of memory together. It may be used concurrently.
type Budget struct {
	Max   int64
	taken atomic.Int64
}

// Take reports whether there is room for n bytes, which there always is for the first ones, and notes them. Who has taken them gives them back.
func (b *Budget) Take(n int64) bool {
	if all := b.taken.Add(n); all > b.Max && all > n {
		b.Give(n)
		return false
	}
	return true
}

// Give gives back what was taken.
func (b *Budget) Give(n int64) { b.taken.Add(-n) }

// Taken is how many bytes are taken.
func (b *Budget) Taken() int64 { return b.taken.Load() }
