package tokens

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// window is the number of bytes of text that decide whether a token may begin there.
const window = 4

// windows is an index of the beginnings of all formats. Ordinary text is skipped with one lookup in a table of 64 KB
// per byte, of which one in a hundred and fifty is a false hit.
type windows struct {
	entries []entry              // sorted by their bytes
	filter  [1 << 19 / 64]uint64 // a bit for each hash of these
	slots   [1 << 13]uint16      // 1 + the place of the first entry with these bytes, at their hash or after it
}

// entry is four bytes with which the text of a format may begin, the first byte on top.
type entry struct {
	bytes  uint32
	begin  uint8 // which of the format's beginnings
	behind uint8 // how many of the bytes stand before it
	format *format
}

// known are the windows of all formats, made on first use.
var known = sync.OnceValue(func() *windows { return newWindows(formats()) })

func newWindows(formats []*format) *windows {
	w := &windows{entries: make([]entry, 0, 4096)}
	for _, f := range formats {
		for i := range f.begins {
			w.add(f, uint8(i))
		}
	}
	w.sort()
	for i, e := range w.entries {
		h := hash(e.bytes)
		w.filter[h/64] |= 1 << (h % 64)
		if i > 0 && e.bytes == w.entries[i-1].bytes {
			continue
		}
		slot := rehash(e.bytes)
		for w.slots[slot] != 0 {
			slot = (slot + 1) % uint32(len(w.slots))
		}
		w.slots[slot] = uint16(i + 1)
	}
	return w
}

// sort sorts the entries by their bytes, and equal ones as they came. Sorting numbers instead of entries takes a
// tenth of the time, and each process that runs something does it.
func (w *windows) sort() {
	order := make([]uint64, len(w.entries))
	for i, e := range w.entries {
		order[i] = uint64(e.bytes)<<32 | uint64(i)
	}
	slices.Sort(order)
	sorted := make([]entry, len(order))
	for i, o := range order {
		sorted[i] = w.entries[uint32(o)]
	}
	w.entries = sorted
}

// add makes a window of the first bytes of a beginning. For a short beginning it makes a window for each of the bytes
// that can stand after it, and for the shortest also before it.
func (w *windows) add(f *format, which uint8) {
	begin, behind := f.begins[which], uint8(0)
	n := min(len(begin), window)
	var first uint32
	for i := range n {
		first = first<<8 | uint32(begin[i])
	}
	heads := []uint32{first}
	if n < window && f.around != "" {
		heads, behind = nil, 1
		for i := range len(f.around) {
			heads = append(heads, uint32(f.around[i])<<(8*n)|first)
		}
		n++
	}
	for _, next := range f.next {
		for n < window {
			var longer []uint32
			for _, h := range heads {
				for b, can := range next {
					if can {
						longer = append(longer, h<<8|uint32(b))
					}
				}
			}
			heads = longer
			n++
			if len(f.next) > 1 {
				break // each of several stands for one byte
			}
		}
	}
	for _, h := range heads {
		w.entries = append(w.entries, entry{h, which, behind, f})
	}
}

func hash(x uint32) uint32   { return x * 0x9e3779b1 >> 13 }
func rehash(x uint32) uint32 { return x * 0x85ebca6b >> 19 }

// at returns the entries for the bytes x.
func (w *windows) at(x uint32) []entry {
	for slot := rehash(x); w.slots[slot] != 0; slot = (slot + 1) % uint32(len(w.slots)) {
		i := int(w.slots[slot] - 1)
		if w.entries[i].bytes != x {
			continue
		}
		j := i + 1
		for j < len(w.entries) && w.entries[j].bytes == x {
			j++
		}
		return w.entries[i:j]
	}
	return nil
}

// begins returns how many bytes before the end of text a token may have begun, whose window is not complete.
func (w *windows) begins(text []byte) int {
	for n := min(window-1, len(text)); n > 0; n-- {
		var b [window]byte
		copy(b[:], text[len(text)-n:])
		x, mask := binary.BigEndian.Uint32(b[:]), ^uint32(0)<<(8*(window-n))
		i, _ := slices.BinarySearchFunc(w.entries, x, func(e entry, x uint32) int { return cmp.Compare(e.bytes, x) })
		longest := 0
		for ; i < len(w.entries) && w.entries[i].bytes&mask == x; i++ {
			longest = max(longest, n-int(w.entries[i].behind))
			if w.entries[i].behind == 0 {
				break
			}
		}
		if longest > 0 {
			return longest
		}
	}
	return 0
}

// skip returns the first place in text, from i on, where a token may begin, and its entries; if there
// is none, the place of the first bytes that are too few for a window.
func (w *windows) skip(text []byte, i int) (int, []entry) {
	for ; i+8 <= len(text); i += 5 {
		x := binary.BigEndian.Uint64(text[i:])
		if (w.may(uint32(x>>32))|w.may(uint32(x>>24))|w.may(uint32(x>>16))|w.may(uint32(x>>8))|w.may(uint32(x)))&1 == 0 {
			continue
		}
		for j := range 5 {
			y := uint32(x >> (32 - 8*j))
			if w.may(y)&1 == 0 {
				continue
			}
			if entries := w.at(y); entries != nil {
				return i + j, entries
			}
		}
	}
	for ; i+window <= len(text); i++ {
		if entries := w.at(binary.BigEndian.Uint32(text[i:])); entries != nil {
			return i, entries
		}
	}
	return i, nil
}

// may returns an odd number if x can be a window.
func (w *windows) may(x uint32) uint64 {
	h := hash(x)
	return w.filter[h/64] >> (h % 64)
}
