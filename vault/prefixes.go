package vault

import (
	"encoding/binary"
	"math/bits"
)

// window is how many bytes of text decide whether a word may begin there. Each spelling of each word
// is longer.
const window = 4

// prefixes is what the spellings of all words begin with. It lets the scan skip ordinary text at the
// speed of one look into a small table per byte.
//
// They are kept in a simple form (see simple), without case and the differences between most
// punctuation, so that there are few: what is found has to be looked at again anyhow.
type prefixes struct {
	filter []uint64 // two bits of one element for each prefix
	shift  uint8
	keys   []uint32 // a hash table; 0 is a free place, as no prefix is four zeros
	groups []uint16 // for each key, a bit for each of the matcher's patterns
	used   int
}

// simple returns eight bytes of text without the difference between upper and lower case, and
// without most of that between the control characters and punctuation from 0x00 to 0x0f and 0x20 to 0x2f.
func simple(x uint64) uint64 {
	const each = 0x0101010101010101
	keep := (x>>5 | x>>3) & (2 * each)
	return (x | 0x20*each) & (0xfd*each | keep)
}

func newPrefixes(m *matcher) prefixes {
	p := prefixes{keys: make([]uint32, 1<<12), groups: make([]uint16, 1<<12)}
	e := explorer{to: &p}
	for i := range m.patterns {
		e.all(&m.patterns[i], i)
	}
	// 16 bits of the filter a prefix, or more: one place in some hundred gets past it for nothing.
	size := min(max(bits.Len(uint(p.used))+4, 10), 24)
	p.shift = uint8(64 - (size - 6))
	p.filter = make([]uint64, 1<<(size-6))
	for _, key := range p.keys {
		if key != 0 {
			at, bits := p.place(key)
			p.filter[at] |= bits
		}
	}
	return p
}

// add notes a prefix.
func (p *prefixes) add(key uint32, group int) {
	if 2*p.used > len(p.keys) {
		old := *p
		p.keys, p.groups, p.used = make([]uint32, 2*len(old.keys)), make([]uint16, 2*len(old.keys)), 0
		for i, key := range old.keys {
			if key != 0 {
				*p.slot(key) = old.groups[i]
			}
		}
	}
	*p.slot(key) |= 1 << group
}

// slot returns where the groups of a key are, which it adds.
func (p *prefixes) slot(key uint32) *uint16 {
	i := p.find(key)
	if p.keys[i] == 0 {
		p.keys[i] = key
		p.used++
	}
	return &p.groups[i]
}

// find returns the place in the table where key is, or belongs.
func (p *prefixes) find(key uint32) int {
	last := len(p.keys) - 1
	i := int(key*0x9e3779b1>>7) & last
	for p.keys[i] != key && p.keys[i] != 0 {
		i = (i + 1) & last
	}
	return i
}

// place returns where the filter has the bits of a key.
func (p *prefixes) place(key uint32) (at uint64, mask uint64) {
	h := uint64(key) * 0x9e3779b97f4a7c15
	return h >> (p.shift & 63), 1<<(h>>20&63) | 1<<(h>>26&63)
}

// may reports whether the simple bytes x can be a prefix.
func (p *prefixes) may(x uint32) bool {
	at, mask := p.place(x)
	return p.filter[at]&mask == mask
}

// skip returns the first place in text, from i on, where a prefix may be; if there is none, the
// place of the first bytes that are too few for a prefix.
func (p *prefixes) skip(text []byte, i int) int {
	for ; i+8 <= len(text); i += 5 {
		x := simple(binary.BigEndian.Uint64(text[i:]))
		switch {
		case p.may(uint32(x >> 32)):
			return i
		case p.may(uint32(x >> 24)):
			return i + 1
		case p.may(uint32(x >> 16)):
			return i + 2
		case p.may(uint32(x >> 8)):
			return i + 3
		case p.may(uint32(x)):
			return i + 4
		}
	}
	for ; i+window <= len(text); i++ {
		if p.may(uint32(simple(uint64(binary.BigEndian.Uint32(text[i:]))))) {
			return i
		}
	}
	return i
}
