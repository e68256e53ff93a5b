package vault

import (
	"bytes"
	"slices"
)

// window is the number of symbols that decide whether a word may begin somewhere. No word is shorter.
const window = 6

// word is one encoding of a value, as the symbols of a view of the text (see scan).
type word struct {
	symbols []byte
	spacing spacing
	tail    uint8 // characters of base64 or base32 that belong to it behind its last symbol
}

// spacing says which text between the symbols of a word is that of a secret. Whatever stands between them, an encoded
// value is one; but a text that has the letters of a value may say something else.
type spacing uint8

const (
	solid spacing = 1 << iota // nothing stands between any two
	apart                     // something stands between any two
	loose                     // either, or both
)

// dictionary is a set of words, sorted, without duplicates. The words form a trie: the scan follows all words with the
// same beginning at once.
//
// An automaton with a node for each symbol would be fifty times as large, and take that much longer to make. Text is
// in the middle of a word so rarely that it would not be faster.
type dictionary struct {
	words  []word
	begin  map[uint64]point // the words with these first symbols
	filter *filter          // a bit for each hash of these
}

func newDictionary(words []word) *dictionary {
	slices.SortFunc(words, func(a, b word) int { return bytes.Compare(a.symbols, b.symbols) })
	d := &dictionary{words: words[:0], begin: make(map[uint64]point, len(words)), filter: new(filter)}
	for _, w := range words {
		if n := len(d.words); n > 0 && bytes.Equal(d.words[n-1].symbols, w.symbols) {
			d.words[n-1].spacing |= w.spacing
			d.words[n-1].tail = max(d.words[n-1].tail, w.tail)
			continue
		}
		d.words = append(d.words, w)
	}
	for i, w := range d.words {
		key := uint64(0)
		for _, s := range w.symbols[:window] {
			key = key<<8 | uint64(s)
		}
		p, ok := d.begin[key]
		if !ok {
			p = point{lo: int32(i), depth: window}
		}
		p.hi = int32(i + 1)
		d.begin[key] = p
		h := hash(key)
		d.filter[h>>6] |= 1 << (h & 63)
	}
	return d
}

// filter is a set of hashes. With a hundred values, one in a hundred is in it by chance.
type filter [1 << (filterBits - 6)]uint64

const filterBits = 20 // of a hash

// has returns an odd number if the filter has a hash.
func (f *filter) has(h uint64) uint64 { return f[h>>6] >> (h & 63) }

// hash hashes the last window symbols of eight.
func hash(last uint64) uint64 {
	return last << (64 - 8*window) * 0x9e3779b97f4a7c15 >> (64 - filterBits)
}

// point is a node of the trie: the first depth symbols of the words from number lo up to, not including, hi were read.
type point struct {
	lo, hi, depth int32
}

// at returns the node after the last symbols, if there is one.
func (d *dictionary) at(last uint64) (point, bool) {
	p, ok := d.begin[last&(1<<(8*window)-1)]
	return p, ok
}

// child returns the node that a symbol leads to, which has no words if there is none.
func (d *dictionary) child(p point, symbol byte) point {
	if p.hi-p.lo > 1 {
		p.lo = d.search(p, int(symbol))
		p.hi = d.search(p, int(symbol)+1)
	}
	if p.lo == p.hi || d.words[p.lo].symbols[p.depth] != symbol {
		return point{}
	}
	p.depth++
	return p
}

// search returns the first word at a node whose next symbol is symbol or higher.
func (d *dictionary) search(p point, symbol int) int32 {
	for p.lo < p.hi {
		if mid := (p.lo + p.hi) / 2; int(d.words[mid].symbols[p.depth]) < symbol {
			p.lo = mid + 1
		} else {
			p.hi = mid
		}
	}
	return p.lo
}

// complete returns the word that ends at a node, and the node without it.
func (d *dictionary) complete(p point) (*word, point) {
	if w := &d.words[p.lo]; len(w.symbols) == int(p.depth) {
		p.lo++
		return w, p
	}
	return nil, p
}

// prefix reports whether a word begins with symbols.
func (d *dictionary) prefix(symbols []byte) bool {
	i, _ := slices.BinarySearchFunc(d.words, symbols, func(w word, s []byte) int { return bytes.Compare(w.symbols, s) })
	return i < len(d.words) && bytes.HasPrefix(d.words[i].symbols, symbols)
}

// wipe clears the words.
func (d *dictionary) wipe() {
	for _, w := range d.words {
		clear(w.symbols)
	}
	clear(d.words)
	clear(d.begin)
	clear(d.filter[:])
}
