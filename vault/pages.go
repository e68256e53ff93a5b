package vault

import (
	"bytes"
	"slices"
	"sync"
)

// pages allocates memory for values that is neither swapped nor dumped, where the system allows that. A process
// may lock little memory (RLIMIT_MEMLOCK), so values share pages. Where locked memory runs out, values are in
// ordinary memory.
//
// Other copies exist: those of the matcher, the strings that Env returns, and short-lived ones of age, SQLite and
// the keyring. No process that leases secrets writes a core dump by itself, see noCore.
//
// A nil *pages has ordinary memory only. It is safe for concurrent use.
type pages struct {
	mu     sync.Mutex
	room   [len(slotSizes)][]*region // those with a free slot
	mapped int                       // bytes
	begun  bool
}

// slotSizes are the sizes of slots in bytes: of most tokens, and up to MaxValue.
var slotSizes = [...]int{64, 256, 1 << 10, 4 << 10, 16 << 10, MaxValue}

const (
	regionSize = MaxValue // bytes: what one mapping costs, in time, is soon more than it holds
	maxMapped  = 64 << 20 // bytes: a hundred secrets in each of a thousand sessions, and room
)

// region is a mapping, divided into slots of the same size.
type region struct {
	memory []byte
	class  int
	free   []int // numbers of slots
}

// keep returns a copy of value, and a function that wipes the copy and frees its slot; the copy must not be used
// afterwards. The caller wipes value.
func (p *pages) keep(value []byte) (stored []byte, release func()) {
	if r, i := p.take(len(value)); r != nil {
		size := slotSizes[r.class]
		slot := r.memory[i*size : (i+1)*size : (i+1)*size]
		return slot[:copy(slot, value)], sync.OnceFunc(func() {
			clear(slot)
			p.give(r, i)
		})
	}
	stored = bytes.Clone(value)
	return stored, func() { clear(stored) }
}

// take returns a free slot, or nil.
func (p *pages) take(n int) (*region, int) {
	class := slices.IndexFunc(slotSizes[:], func(size int) bool { return n <= size })
	if p == nil || class < 0 {
		return nil, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun = true
		noCore()
	}
	if len(p.room[class]) == 0 {
		if p.mapped >= maxMapped {
			return nil, 0
		}
		memory := mapPrivate(regionSize)
		if memory == nil {
			return nil, 0
		}
		p.mapped += regionSize
		r := &region{memory: memory, class: class}
		for i := range regionSize / slotSizes[class] {
			r.free = append(r.free, i)
		}
		p.room[class] = append(p.room[class], r)
	}
	r := p.room[class][0]
	i := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	if len(r.free) == 0 {
		p.room[class] = p.room[class][1:]
	}
	return r, i
}

// give frees a slot. Of the empty regions, one of each slot size stays mapped.
func (p *pages) give(r *region, i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.free = append(r.free, i)
	if len(r.free) == 1 {
		p.room[r.class] = append(p.room[r.class], r)
	}
	if len(r.free) == regionSize/slotSizes[r.class] && len(p.room[r.class]) > 1 {
		p.room[r.class] = slices.DeleteFunc(p.room[r.class], func(other *region) bool { return other == r })
		p.mapped -= regionSize
		unmap(r.memory)
	}
}
