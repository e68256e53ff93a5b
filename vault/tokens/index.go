package tokens

import (
	"strings"
	"sync"
)

// index finds the heads of all formats. Ordinary text is skipped with one lookup in a table of 8 KB for each byte.
type index struct {
	windows [1 << 16 / 64]uint64 // a bit for the hash of each window
	heads   map[string][]head    // by their first three bytes; a shorter head is extended by a letter or a digit
	begins  map[string]bool      // one and two bytes with which heads begin
}

// window is the number of bytes that decide whether a token may begin at a place.
const window = 3

// head is a text with which a format begins.
type head struct {
	text   string
	format *format
}

// knownHeads is the index of all formats, made on first use.
var knownHeads = sync.OnceValue(func() *index {
	x := &index{heads: map[string][]head{}, begins: map[string]bool{}}
	for _, f := range formats() {
		for text := range strings.FieldsSeq(f.heads) {
			x.addHead(text, head{text, f})
		}
	}
	return x
})

// addHead adds a head that begins with a text.
func (x *index) addHead(text string, h head) {
	if len(text) < window {
		for _, b := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" {
			x.addHead(text+string(b), h)
		}
		return
	}
	text = text[:window]
	x.begins[text[:1]], x.begins[text[:2]] = true, true
	x.heads[text] = append(x.heads[text], h)
	i := hash(text)
	x.windows[i/64] |= 1 << (i % 64)
}

func hash[T string | []byte](b T) uint32 {
	return (uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])) * 0x9e3779b1 >> 16
}

// skip returns the first place in text, from i on, where a token, or its first byte, may start, or the end of text, and
// the heads that are possible there.
func skip[T string | []byte](x *index, text T, i int) (int, []head) {
	for ; i+window <= len(text); i++ {
		if h := hash(text[i : i+window]); x.windows[h/64]>>(h%64)&1 != 0 {
			if heads := x.heads[string(text[i:i+window])]; heads != nil {
				return i, heads
			}
		}
	}
	for ; i < len(text) && !x.begins[string(text[i:])]; i++ {
	}
	return i, nil
}
