package vault

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// window is the number of bytes of text that decide whether a word may begin there. Each spelling of each word is
// longer.
const window = 4

// prefixes is the set of the beginnings of all spellings of all words. It lets the scan skip ordinary text with one
// lookup in a small table per byte, and reject most of the other text with a second lookup.
//
// Prefixes are normalized (see simple), without case and the differences between most punctuation, so that there are
// few: a hit is verified anyway. Spellings with a line break among their first bytes are not here: see fold.
type prefixes struct {
	first   *filter       // the prefixes
	second  *filter       // the prefixes together with the byte that follows
	entries []prefixEntry // a hash table
	used    int
}

// filter is a set of hashes of 32 bits, of which it stores the upper 21. Its size is constant, since each byte of the
// text is looked up: with a hundred secrets, one hash in eighty is in the first filter by chance.
type filter [1 << 21 / 64]uint64

// filters is a pool of empty filters. A new one is 256 KB of memory that the kernel hands out page by page as hashes
// come: that was half of the time until the first byte of a run's text was through.
var filters = sync.Pool{New: func() any { return new(filter) }}

// wipe empties a filter and returns it to the pool.
func (f *filter) wipe() {
	clear(f[:])
	filters.Put(f)
}

func (f *filter) add(hash uint32) { f[hash>>17] |= 1 << (hash >> 11 & 63) }

// has returns 1 if the filter has a hash, otherwise 0.
func (f *filter) has(hash uint32) uint64 { return f[hash>>17] >> (hash >> 11 & 63) & 1 }

// prefixEntry is an entry of the hash table. then are the sets of bytes that may follow the prefix: a byte that is not
// special must be in the first set, and the byte after it in the second.
type prefixEntry struct {
	then   [2]uint64 // a bit for each byte; see bitOf
	key    uint32    // 0 is a free place, as no prefix is four zeros
	groups uint16    // a bit for each of the matcher's patterns
}

// anything is the set of all bytes.
const anything = ^uint64(0)

// bitOf returns the bit of a byte in the sets of a prefix. Some bytes share a bit.
func bitOf(b byte) uint64 { return 1 << (simple(uint64(b)) & 63) }

// simple returns eight bytes of text without the difference between upper and lower case, and
// without most of that between the control characters and punctuation from 0x00 to 0x0f and 0x20 to 0x2f.
func simple(x uint64) uint64 {
	const each = 0x0101010101010101
	keep := (x>>5 | x>>3) & (2 * each)
	return (x | 0x20*each) & (0xfd*each | keep)
}

func newPrefixes(m *matcher) prefixes {
	p := prefixes{entries: make([]prefixEntry, 1<<9)}
	e := explorer{to: &p}
	for i := range m.patterns {
		e.all(&m.patterns[i], i)
	}
	p.first, p.second = filters.Get().(*filter), filters.Get().(*filter)
	for i := range p.entries {
		e := &p.entries[i]
		if e.key == 0 {
			continue
		}
		p.first.add(hash(e.key))
		if e.then[0] == anything {
			p.second.add(hashWith(e.key, anyByte))
			continue
		}
		for set := e.then[0]; set != 0; set &= set - 1 {
			p.second.add(hashWith(e.key, uint32(bits.TrailingZeros64(set))))
		}
	}
	return p
}

// add adds a prefix and the sets of bytes that may follow it.
func (p *prefixes) add(key uint32, group int, then [2]uint64) {
	if 3*p.used >= 2*len(p.entries) {
		old := p.entries
		p.entries = make([]prefixEntry, 2*len(old))
		for i := range old {
			if old[i].key != 0 {
				p.entries[p.find(old[i].key)] = old[i]
			}
		}
		clear(old)
	}
	e := &p.entries[p.find(key)]
	if e.key == 0 {
		e.key = key
		p.used++
	}
	e.groups |= 1 << group
	e.then[0] |= then[0]
	e.then[1] |= then[1]
}

// find returns the slot of key in the table, or the free slot for it.
func (p *prefixes) find(key uint32) int {
	last := len(p.entries) - 1
	i := int(hash(key)>>5) & last
	for p.entries[i].key != key && p.entries[i].key != 0 {
		i = (i + 1) & last
	}
	return i
}

func hash(key uint32) uint32 { return key * 0x9e3779b1 }

// anyByte stands for any byte in hashWith.
const anyByte = 64

// hashWith hashes a prefix and the low six bits of the normalized byte after it.
func hashWith(key, b uint32) uint32 { return (key+b*0x61c88647)*0x85ebca6b ^ b*0xc2b2ae35 }

// begins returns the patterns of which a word may begin with the normalized bytes key, followed by rest as far as that
// is known.
func (p *prefixes) begins(key uint32, rest []byte) uint16 {
	if p.first.has(hash(key)) == 0 {
		return 0
	}
	return p.groups(key, rest)
}

// groups is begins for a key that is in the first filter.
func (p *prefixes) groups(x uint32, rest []byte) uint16 {
	if len(rest) > 0 && !special.has(rest[0]) &&
		p.second.has(hashWith(x, uint32(simple(uint64(rest[0])))&63))|p.second.has(hashWith(x, anyByte)) == 0 {
		return 0
	}
	e := &p.entries[p.find(x)]
	for i := 0; i < len(e.then) && len(rest) > 0; i++ {
		b := rest[0]
		if b == '%' && len(rest) > 2 && e.then[i]&bitOf(b) == 0 {
			if b = unhex(rest[1])<<4 | unhex(rest[2])&15; b >= 0x80 || unhex(rest[2]) > 15 || b == '%' {
				break
			}
			rest = rest[2:]
		} else if special.has(b) {
			break
		}
		if e.then[i]&bitOf(b) == 0 {
			return 0
		}
		if !isWord(b) || b|0x20 == 'u' {
			break // what follows a separator, or %u, is not in the second set
		}
		rest = rest[1:]
	}
	return e.groups
}

// skip returns the first place in text, from i up to end, where a prefix may be; if there is none,
// end or the place of the first bytes that are too few for a prefix.
func (p *prefixes) skip(text []byte, i, end int) int {
	first := p.first
	for ; i < end && i+8 <= len(text); i += 5 {
		x := simple(binary.BigEndian.Uint64(text[i:]))
		hits := first.has(hash(uint32(x>>32))) | first.has(hash(uint32(x>>24)))<<1 | first.has(hash(uint32(x>>16)))<<2 |
			first.has(hash(uint32(x>>8)))<<3 | first.has(hash(uint32(x)))<<4
		for ; hits != 0; hits &= hits - 1 {
			n := bits.TrailingZeros64(hits)
			key := uint32(x >> (32 - 8*n))
			if p.groups(key, text[i+n+window:]) != 0 {
				return min(i+n, end)
			}
		}
	}
	for ; i < end && i+window <= len(text); i++ {
		key := uint32(simple(uint64(binary.BigEndian.Uint32(text[i:]))))
		if p.begins(key, text[i+window:]) != 0 {
			return i
		}
	}
	return min(i, end)
}

// following returns the sets of bytes that may follow a prefix that leads to these threads, apart from special bytes.
func (p *patterns) following(threads []thread) (then [2]uint64) {
	for _, t := range threads {
		w := p.words[t.lo]
		switch {
		case t.tail == inWord && (t.state == start || t.state == afterBreak) && int(t.depth)+1 < len(w):
			then[0] |= bitOf(w[t.depth])
			then[1] |= bitOf(w[t.depth+1])
		case t.state == unit && t.count > 0:
			then[0] |= p.firstDigits(t, 4)
			then[1] = anything
		case t.state == long:
			then[0] |= p.firstDigits(t, 8)
			then[1] = anything
		case t.state == pair && t.run > 0 && t.count == 0:
			then[0] |= p.firstDigits(t, 2) | bitOf('2') | bitOf('u')
			for _, b := range []byte(hexDigits) {
				if u := t; p.digit(&u, b, 16, 2, 2) {
					then[1] |= p.firstDigits(u, 2)
				}
			}
			then[1] |= bitOf('5')
		default:
			return [2]uint64{anything, anything}
		}
	}
	return then
}

const hexDigits = "0123456789abcdef"

// firstDigits returns which hex digits may come next at t, in a number of width digits.
func (p *patterns) firstDigits(t thread, width uint8) (set uint64) {
	for _, b := range []byte(hexDigits) {
		if u := t; p.digit(&u, b, 16, width, width) {
			set |= bitOf(b)
		}
	}
	return set
}
