package vault

import (
	"bytes"
	"math/bits"
	"slices"
)

// window is the number of symbols that decide whether a word may begin somewhere. No word is shorter.
const window = 6

const (
	gramSize       = 4                     // symbols of a window that are compared first
	gramsPerWindow = window - gramSize + 1 // positions of a gram in a window
)

// word is one encoding of a value, as the symbols of a view of the text (see scan).
type word struct {
	symbols []byte
	tail    uint8 // characters of base64 or base32 that follow its last symbol and belong to the word
}

// dictionary is a set of words, sorted, without duplicates. The words form a trie: the scan follows all words with the
// same beginning at once.
//
// An automaton with a node for each symbol would be fifty times as large, and take that much longer to build. It would
// not be faster, since text is rarely in the middle of a word.
type dictionary struct {
	words        []word
	firstSymbols map[uint64]trieNode // first symbols -> the words that start with them
	filter       filter              // has the first symbols of the words, and each gram of them
}

func newDictionary(words []word) *dictionary {
	slices.SortFunc(words, func(a, b word) int { return bytes.Compare(a.symbols, b.symbols) })
	d := &dictionary{words: words[:0], firstSymbols: make(map[uint64]trieNode, len(words))}
	for _, w := range words {
		if n := len(d.words); n > 0 && bytes.Equal(d.words[n-1].symbols, w.symbols) {
			d.words[n-1].tail = max(d.words[n-1].tail, w.tail)
			continue
		}
		d.words = append(d.words, w)
	}
	d.filter = newFilter(len(words) * (gramsPerWindow + 1))
	for i, w := range d.words {
		d.addTrieNode(w.symbols, trieNode{int32(i), int32(i + 1), window})
	}
	return d
}

// addTrieNode adds the words below a node; their common prefix was added before.
func (d *dictionary) addTrieNode(symbols []byte, p trieNode) {
	key := packSymbols(symbols[:window])
	if first, ok := d.firstSymbols[key]; ok {
		first.hi = max(first.hi, p.hi)
		p = first
	}
	d.firstSymbols[key] = p
	d.filter.insert(foldNumber(key))
	for i := range gramsPerWindow {
		d.filter.insert(uint32(packSymbols(symbols[i : i+gramSize])))
	}
}

// packSymbols packs at most window symbols into a number.
func packSymbols(symbols []byte) uint64 {
	n := uint64(0)
	for _, b := range symbols {
		n = n<<8 | uint64(b)
	}
	return n
}

// foldNumber hashes packed symbols into fewer bits.
func foldNumber(n uint64) uint32 { return uint32(n ^ n>>20) }

// filter is a set of numbers of symbols. With a hundred values, one in twenty is in it by chance.
type filter struct {
	bits  []uint64 // one for each hash
	shift uint8    // of a hash
}

func newFilter(items int) filter {
	size := min(max(10, bits.Len(uint(64*items))), 20)
	return filter{make([]uint64, 1<<(size-6)), uint8(32 - size)}
}

func (f *filter) hash(x uint32) uint32 { return x * 0x9e3779b1 >> (f.shift & 31) }

func (f *filter) insert(x uint32) {
	h := f.hash(x)
	f.bits[h/64] |= 1 << (h % 64)
}

// has reports whether the filter may have x.
func (f *filter) has(x uint32) bool {
	h := f.hash(x)
	return f.bits[h/64]>>(h%64)&1 != 0
}

// trieNode is a node of the trie: the first depth symbols of the words from number lo up to, not including, hi were
// read.
type trieNode struct {
	lo, hi, depth int32
}

const lastWindow = 1<<(8*window) - 1 // of the last eight symbols

// hasPrefix reports whether the last symbols are the beginning of a word.
func (d *dictionary) hasPrefix(last uint64) bool {
	if !d.filter.has(foldNumber(last & lastWindow)) {
		return false
	}
	_, ok := d.firstSymbols[last&lastWindow]
	return ok
}

// child returns the node that a symbol leads to, which has no words if there is none.
func (d *dictionary) child(p trieNode, symbol byte) trieNode {
	if p.hi-p.lo > 1 {
		p.lo = d.search(p, int(symbol))
		p.hi = d.search(p, int(symbol)+1)
	}
	if p.lo == p.hi || d.words[p.lo].symbols[p.depth] != symbol {
		return trieNode{}
	}
	p.depth++
	return p
}

// search returns the first word at a node whose next symbol is symbol or higher.
func (d *dictionary) search(p trieNode, symbol int) int32 {
	for p.lo < p.hi {
		if mid := (p.lo + p.hi) / 2; int(d.words[mid].symbols[p.depth]) < symbol {
			p.lo = mid + 1
		} else {
			p.hi = mid
		}
	}
	return p.lo
}

// completeWord returns the word that ends at a node, and the node without it.
func (d *dictionary) completeWord(p trieNode) (*word, trieNode) {
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
	clear(d.firstSymbols)
	clear(d.filter.bits)
}
