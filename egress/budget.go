package egress

import "sync/atomic"

// Budget is how many descriptors the gateways of one process may have open together, so that many
// busy sandboxes leave some for the log and for callers. A nil one is without bounds.
type Budget struct{ left atomic.Int64 }

// NewBudget returns one of half of the descriptors that this process may have.
func NewBudget() *Budget {
	b := &Budget{}
	b.left.Store(1 << 20)
	if limit := descriptors(); limit > 0 {
		b.left.Store(int64(limit / 2))
	}
	return b
}

// take says whether there are n more for a gateway that has held of them, and takes them. Nobody may have
// more than what is left for the others. What was taken has to be given back.
func (b *Budget) take(n, held int64) bool {
	if b == nil {
		return true
	}
	if b.left.Add(-n) >= held {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *Budget) give(n int64) {
	if b != nil {
		b.left.Add(n)
	}
}
