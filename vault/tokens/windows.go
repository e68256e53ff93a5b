package tokens

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// window is how many bytes of text decide whether a token may begin there.
const window = 4

// windows is what the beginnings of all formats look like. Ordinary text is skipped at the speed of one look
// into a table of 64 KB per byte, which lets one in a hundred and fifty places pass for nothing.
type windows struct {
	entries []entry              // sorted by their bytes
	filter  [1 << 19 / 64]uint64 // a bit for each hash of these
	slots   [1 << 13]uint16      // 1 + the place of the first entry with these bytes, at their hash or after it
}

// entry says that some bytes, the first one on top, are where a format may begin.
type entry struct {
	bytes  uint32
	format *format
	begin  string // what the format begins with
	behind int    // how many of the bytes stand before it
}

// known are the windows of all formats, made on first use.
var known = sync.OnceValue(func() *windows { return newWindows(formats()) })

func newWindows(formats []*format) *windows {
	w := &windows{}
	for _, f := range formats {
		for _, begin := range f.begins {
			w.add(f, begin)
		}
	}
	slices.SortStableFunc(w.entries, func(a, b entry) int { return cmp.Compare(a.bytes, b.bytes) })
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

// add makes a window of the first bytes of begin, or as many as it takes if begin is short: with what
// can stand after it, and for the shortest also before it.
func (w *windows) add(f *format, begin string) {
	if len(begin) >= window {
		w.entries = append(w.entries, entry{binary.BigEndian.Uint32([]byte(begin)), f, begin, 0})
		return
	}
	heads, behind := []string{begin}, 0
	if f.around != "" {
		heads, behind = nil, 1
		for i := range len(f.around) {
			heads = append(heads, f.around[i:i+1]+begin)
		}
	}
	for _, next := range f.next {
		for len(heads[0]) < window {
			var longer []string
			for _, h := range heads {
				for b := range 256 {
					if next[b] {
						longer = append(longer, h+string([]byte{byte(b)}))
					}
				}
			}
			heads = longer
			if len(f.next) > 1 {
				break // each of several stands for one byte
			}
		}
	}
	for _, h := range heads {
		w.entries = append(w.entries, entry{binary.BigEndian.Uint32([]byte(h)), f, begin, behind})
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

// begins returns how many bytes before the end of text a token may have begun, whose window is not
// complete.
func (w *windows) begins(text []byte) int {
	for n := min(window-1, len(text)); n > 0; n-- {
		var b [window]byte
		copy(b[:], text[len(text)-n:])
		x, mask := binary.BigEndian.Uint32(b[:]), ^uint32(0)<<(8*(window-n))
		i, _ := slices.BinarySearchFunc(w.entries, x, func(e entry, x uint32) int { return cmp.Compare(e.bytes, x) })
		most := 0
		for ; i < len(w.entries) && w.entries[i].bytes&mask == x; i++ {
			most = max(most, n-w.entries[i].behind)
			if w.entries[i].behind == 0 {
				break
			}
		}
		if most > 0 {
			return most
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
