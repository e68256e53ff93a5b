package vault

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// window is how many bytes of text decide whether a pattern may begin there. Each spelling of each
// pattern is longer.
const window = 4

// prefixes is what the patterns' spellings begin with. It lets the scan skip ordinary text at the
// speed of one look into a small table per byte.
type prefixes struct {
	first  table    // by the first window bytes
	digits table    // by the four digits, for those that begin with \uXXXX
	filter []uint64 // a bit for each hash of a prefix in first
	shift  uint8
}

// table is entries sorted by their bytes.
type table []entry

// entry says that some bytes lead to a place in a pattern.
type entry struct {
	bytes   uint32 // the first one on top
	pattern int32
	cursor
}

// unicode, as the pattern of an entry or thread, stands for all patterns that begin with \uXX:
// every value can, so they wait for the other two digits before they become threads.
const unicode = -1

func newPrefixes(patterns []pattern) prefixes {
	var p prefixes
	for i := range patterns {
		p.add(&patterns[i], int32(i), cursor{}, 0, 0)
	}
	p.first = sorted(p.first)
	p.digits = sorted(p.digits)
	// 64 bits a prefix: one place in a hundred of ordinary text gets past the filter for nothing.
	size := min(max(bits.Len(uint(64*len(p.first))), 10), 24)
	p.shift = uint8(32 - size)
	p.filter = make([]uint64, 1<<size/64)
	for _, e := range p.first {
		h := p.hash(e.bytes)
		p.filter[h/64] |= 1 << (h % 64)
	}
	return p
}

// add follows all spellings of a pattern, from the place c that n bytes led to.
func (p *prefixes) add(of *pattern, number int32, c cursor, bytes uint32, n int) {
	if n == window && bytes>>16 == '\\'<<8|'u' {
		p.first = append(p.first, entry{bytes: bytes, pattern: unicode})
	} else if n == window {
		p.first = append(p.first, entry{bytes, number, c})
		return
	} else if n == window+2 {
		p.digits = append(p.digits, entry{bytes, number, c})
		return
	}
	var buf [40]byte
	for _, b := range of.candidates(buf[:0], c) {
		next, other := of.step(c, b)
		if next.state != dead {
			p.add(of, number, next, bytes<<8|uint32(b), n+1)
		}
		if other.state != dead {
			p.add(of, number, other, bytes<<8|uint32(b), n+1)
		}
	}
}

func sorted(t table) table {
	slices.SortFunc(t, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.pattern, b.pattern),
			cmp.Compare(a.symbols, b.symbols), cmp.Compare(a.state, b.state))
	})
	return slices.Compact(t)
}

// with returns the entries that have these bytes.
func (t table) with(bytes uint32) table {
	i := t.search(bytes)
	j := i
	for j < len(t) && t[j].bytes == bytes {
		j++
	}
	return t[i:j]
}

// begins reports whether an entry's bytes begin with the last n of x.
func (t table) begins(x uint32, n int) bool {
	shift := window*8 - 8*n
	i := t.search(x << shift)
	return i < len(t) && t[i].bytes>>shift == x<<shift>>shift
}

// search returns the index of the first entry that has these bytes or higher ones.
func (t table) search(bytes uint32) int {
	i, _ := slices.BinarySearchFunc(t, bytes, func(e entry, x uint32) int { return cmp.Compare(e.bytes, x) })
	return i
}

// candidates appends a few bytes, among them all that lead somewhere from c, which is near the
// beginning of the pattern.
func (p *pattern) candidates(to []byte, c cursor) []byte {
	const escapes = "%\\uxnr\r\n+/-_"
	const digits = "0123456789abcdefABCDEF"
	switch {
	case c.state >= pairHigh && c.state != slash:
		return append(to, digits...)
	case p.enc == asText:
		v := p.value[c.symbols]
		return append(append(to, escapes...), v, short(v))
	case p.enc == asHex:
		return append(append(to, escapes...), digits...)
	default:
		v, _ := p.sextet(c.symbols)
		return append(append(to, escapes...), alphabet[v])
	}
}

func (p *prefixes) hash(x uint32) uint32 { return x * 0x9e3779b1 >> (p.shift & 31) }

// may reports whether x can be a prefix.
func (p *prefixes) may(x uint32) bool {
	h := p.hash(x)
	return p.filter[h/64]&(1<<(h%64)) != 0
}

// skip returns the first place in text, from i on, where a prefix may be; if there is none, the
// place of the first bytes that are too few for a prefix.
func (p *prefixes) skip(text []byte, i int) int {
	for ; i+8 <= len(text); i += 5 {
		x := binary.BigEndian.Uint64(text[i:])
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
		if p.may(binary.BigEndian.Uint32(text[i:])) {
			return i
		}
	}
	return i
}
