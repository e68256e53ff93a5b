package vault

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// explorer enumerates the prefixes of patterns.
type explorer struct {
	to   *prefixes
	sets [window + 1]steps
}

// listGaps are the separators between the first two symbols of a list. Later separators are those that
// stepList accepts.
var listGaps = []string{
	" ", "  ", "   ", "\t", "\n", "\r\n", "\n ", " \n", `\`, `\n`, `\x`, "-", ".", "'", "+", "/", ":", ";", "_", "|",
	",", ", ", ",\n", ",\n ", ",\r\n", "','", `","`, "', '", `", "`, "; ", ": ", " : ", " - ", " + ", " | ",
	" 0x", ",0x", ", 0x", " 0b", ",0b", ", 0b", " 0o", ",0o", ", 0o",
}

// all adds the prefixes of a group of the matcher's patterns.
func (e *explorer) all(p *patterns, group int) {
	numbers := numerals()
	for i, w := range p.words {
		var buf [known]string
		spelled, unescaped := p.spelling(buf[:0], w, numbers)
		switch {
		case p.encoding == asText:
			e.sets[0].threads = append(e.sets[0].threads[:0],
				thread{group: uint8(group), point: point{lo: int32(i), hi: int32(i + 1)}})
			e.explore(p, group, 0, 0)
		case p.encoding == asSpaced:
			spelled = characters(w)
			e.join(group, spelled, listGaps)
		case p.encoding == asGrouped:
			e.addOnly(group, spelled...)
			for _, gap := range listGaps {
				e.addOnly(group, spelled[0], gap, spelled[1], gap)
				e.addOnly(group, spelled[0], gap, spelled[1], spelled[2])
				e.addOnly(group, spelled[0], spelled[1], gap, spelled[2])
				e.addOnly(group, spelled[0], spelled[1], spelled[2], gap)
			}
		case p.radix != 0:
			e.join(group, spelled, listGaps)
			for i, s := range spelled[1:] { // the first may have a zero in front of it
				spelled[i+1] = "00000000"[:int(p.width)-len(s)] + s
			}
			e.digits(group, p.encoding, strings.Join(spelled, ""))
		default:
			e.add(group, spelled...)
			if !unescaped {
				e.escaped(group, spelled)
			}
			if p.encoding == asBase64 && !unescaped {
				e.escaped(group, urlsafe(spelled))
			}
		}
	}
}

// known is the number of bytes of a word in the table: the prefix and the two sets.
const known = window + len(prefixEntry{}.then)

// characters returns the first characters of w, of several bytes if they are not ASCII.
func characters(w []byte) []string {
	all := make([]string, 3, window)
	for i := range all {
		n := 1
		for n < len(w) && w[n]&0xc0 == 0x80 {
			n++
		}
		all[i], w = string(w[:n]), w[n:]
		if len(w) == 0 {
			break
		}
	}
	return all
}

// spelling returns the spellings of the first symbols, and whether none of them is ever escaped.
func (p *patterns) spelling(to []string, w []byte, numbers *[4][256]string) (spelled []string, unescaped bool) {
	unescaped = true
	for _, s := range w[:min(known, len(w))] {
		switch {
		case p.radix != 0:
			to = append(to, numbers[p.encoding-asHex][s])
			continue
		case p.encoding == asBase64:
			s = alphabet[s]
		case p.encoding == asBase32:
			s = "abcdefghijklmnopqrstuvwxyz234567"[s]
		case p.encoding == asBase32Hex:
			s = "0123456789abcdefghijklmnopqrstuv"[s]
		}
		to = append(to, bytesAsStrings[s])
		unescaped = unescaped && isWord(s) && s != '_'
	}
	return to, unescaped
}

// digits adds the prefix of numbers without separators.
func (e *explorer) digits(group int, w encoding, digits string) {
	key := binary.BigEndian.Uint32([]byte(digits))
	then := [2]uint64{bitOf(digits[4]), bitOf(digits[5])}
	if w != asBinary {
		then = [2]uint64{then[0] | betweenNumbers, then[0] | then[1]} // behind _, what was the first is the second
	}
	e.to.add(uint32(simple(uint64(key))), group, then)
}

// betweenNumbers has the bits of the bytes that may stand between two numbers.
var betweenNumbers = func() (set uint64) {
	for i := range len(separators) {
		set |= bitOf(separators[i])
	}
	return set
}()

// join adds the prefixes of symbols with a gap between each two.
func (e *explorer) join(group int, symbols []string, gaps []string) {
	for _, gap := range gaps {
		e.addOnly(group, symbols[0], gap, symbols[1], gap, symbols[2])
	}
}

// add adds the prefix of parts, and the bytes behind it if they are longer.
func (e *explorer) add(group int, parts ...string) {
	var spelled [known]byte
	n := 0
	for _, s := range parts {
		n += copy(spelled[n:], s)
	}
	then := [2]uint64{anything, anything}
	for i := window; i < n; i++ {
		then[i-window] = bitOf(spelled[i])
		if spelled[i] == '+' || spelled[i] == '/' {
			then[i-window] |= bitOf('-') | bitOf('_') // of base64url
		}
	}
	e.to.add(uint32(simple(uint64(binary.BigEndian.Uint32(spelled[:])))), group, then)
}

// addOnly adds the prefix that parts begin with, which anything may follow.
func (e *explorer) addOnly(group int, parts ...string) {
	var spelled [window]byte
	n := 0
	for _, s := range parts {
		n += copy(spelled[n:], s)
	}
	e.add(group, string(spelled[:]))
}

// explore advances the threads of set n by each byte that may come.
func (e *explorer) explore(p *patterns, group int, key uint32, n int) {
	if n == window {
		e.to.add(key, group, p.following(e.sets[n].threads))
		return
	}
	var may byteSet
	for i := range e.sets[n].threads {
		p.candidates(&may, &e.sets[n].threads[i])
	}
	next := &e.sets[n+1]
	for i, set := range may {
		for ; set != 0; set &= set - 1 {
			b := byte(64*i + bits.TrailingZeros64(set))
			next.threads = next.threads[:0]
			for _, t := range e.sets[n].threads {
				p.step(next, t, b)
			}
			next.threads = slices.DeleteFunc(next.threads, func(t thread) bool { return afterBreak <= t.state && t.state <= breakN })
			if len(next.threads) > 0 {
				e.explore(p, group, key<<8|uint32(simple(uint64(b)))&0xff, n+1)
			}
		}
	}
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte) { s[b>>6] |= 1 << (b & 63) }

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 == 1 }

func setOf(bytes string) (s byteSet) {
	for i := range len(bytes) {
		s.add(bytes[i])
	}
	return s
}

// The bytes that may come in each state, apart from the next symbols.
var (
	inText    = setOf("\n\r\\%&=+\t \x1b\xe2\xc2\xef")
	inEncoded = setOf("\n\r\\%&= ")
	inSlash   = setOf("\\xuU01234567nrtbfvae\n")
	inWide    = byteSet{2: ^uint64(0)} // 0x80 to 0xbf
	inEscape  = setOf("0123456789abcdef\\\n\r{}#xu;[mKngtlqopsa ")
)

// candidates adds the bytes that may lead somewhere from t. Of bytes with the same simple form that lead to the same
// place, it adds at least one.
func (p *patterns) candidates(may *byteSet, t *thread) {
	from := &inEscape
	switch {
	case t.state == slash:
		from = &inSlash
	case t.state == wide2 || t.state == wide3:
		from = &inWide
	case t.state == start || t.state == afterBreak:
		from = &inEncoded
		if p.encoding == asText {
			from = &inText
		}
	}
	for i := range may {
		may[i] |= from[i]
	}
	if t.state > slash && t.state != wide2 && t.state != wide3 || t.tail != inWord {
		return
	}
	for _, w := range p.words[t.lo:t.hi] {
		s := w[t.depth]
		switch p.encoding {
		case asBase64:
			may.add(alphabet[s])
			if s >= 62 {
				may.add("-_"[s-62])
			}
		case asBase32:
			may.add("abcdefghijklmnopqrstuvwxyz234567"[s])
		case asBase32Hex:
			may.add("0123456789abcdefghijklmnopqrstuv"[s])
		default:
			may.add(s)
		}
	}
}

// numerals are the spellings of the bytes in the encodings from asHex to asBinary, without leading zeros.
var numerals = sync.OnceValue(func() *[4][256]string {
	t := new([4][256]string)
	for c := range 256 {
		t[0][c] = fmt.Sprintf("%02x", c)
		t[1][c] = fmt.Sprint(c)
		t[2][c] = fmt.Sprintf("%o", c)
		t[3][c] = fmt.Sprintf("%b", c)
	}
	return t
})

var bytesAsStrings = func() (t [256]string) {
	for c := range t {
		t[c] = string([]byte{byte(c)})
	}
	return t
}()
