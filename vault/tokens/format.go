package tokens

import (
	"bytes"
	"slices"
	"strings"
)

// format is the format of a kind of token.
type format struct {
	kind   string
	begins []string // with one of these; the rest are pieces
	next   []*set   // after a begin shorter than a window: what each byte must be, or all of them
	around string   // before a begin shorter still: one of these
	apart  *set     // none of these stands before it; nil: anything may

	pieces []piece
	sure   int // this many pieces must match; the rest is masked as far as it matches
	public int // this many pieces are not secret, and stay
	check  func(t token) bool
}

// piece is a literal or a run of bytes.
type piece struct {
	text     string
	set      *set
	min, max int
	after    *set // what must come after the run; nil: anything
	end      bool // or the text's end
	key      bool // the run is the body of a private key
}

// token is a match of a format.
type token struct {
	behind []byte // some of the text before it
	whole  []byte // as far as the format is sure
	secret []byte // what of it is random
}

// set is a set of bytes.
type set [256]bool

// bytesOf returns the set of the bytes and ranges in text: a-z is a range, a - at the end is itself.
func bytesOf(text string) *set {
	s := &set{}
	for i := 0; i < len(text); i++ {
		if i+2 < len(text) && text[i+1] == '-' {
			for b := int(text[i]); b <= int(text[i+2]); b++ {
				s[b] = true
			}
			i += 2
			continue
		}
		s[text[i]] = true
	}
	return s
}

// not returns the set of all other bytes.
func (s *set) not() *set {
	var other set
	for b := range s {
		other[b] = !s[b]
	}
	return &other
}

var (
	lowerHex  = bytesOf("0-9a-f")
	anyHex    = bytesOf("0-9a-fA-F")
	upper     = bytesOf("A-Z0-9")
	letters   = bytesOf("a-zA-Z0-9")
	base64Std = bytesOf("a-zA-Z0-9+/")
	base64URL = bytesOf("a-zA-Z0-9_-")
	dotted    = bytesOf("a-zA-Z0-9_.=-")
)

func run(s *set, min, max int) piece { return piece{set: s, min: min, max: max} }

// exactly is a run that no byte of the set follows.
func exactly(n int, s *set) piece {
	return piece{set: s, min: n, max: n, after: s.not(), end: true}
}

// open returns a format that is sure after n bytes of s, and extends over all bytes of s. A long beginning is enough by
// itself; a short one must stand apart.
func open(kind string, n int, s *set, begins ...string) *format {
	f := &format{kind: kind, begins: begins, pieces: []piece{run(s, n, n), run(s, 0, 0)}, sure: 1, check: plausible}
	return f.alone(s)
}

// whole is a format with n bytes of s, no more.
func whole(kind string, n int, s *set, begins ...string) *format {
	f := &format{kind: kind, begins: begins, pieces: []piece{exactly(n, s)}, sure: 1, check: plausible}
	return f.alone(s)
}

// alone requires a boundary before beginnings of four bytes or less, and sets the next bytes after beginnings of fewer.
func (f *format) alone(next *set) *format {
	for _, b := range f.begins {
		if len(b) <= window {
			f.apart = letters
		}
		if len(b) < window {
			f.next = []*set{next}
		}
	}
	return f
}

// named is a format without a beginning of its own: a value counts after the name of its service, an equals sign or the
// like, and quotes.
func named(kind string, value piece, check func(token) bool, names ...string) *format {
	space, closing := bytesOf(" \t\"'`\\"), bytesOf(" \t\"'`\\])")
	return &format{kind: kind, begins: spellings(names),
		pieces: []piece{run(bytesOf("a-zA-Z0-9_.-"), 0, 30), run(closing, 0, 4), run(bytesOf("=:>,|"), 1, 3), run(space, 0, 6), value},
		sure:   5, public: 4, check: check}
}

// spellings returns the names, which are in snake case, in the cases that programs use.
func spellings(names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, n, strings.ToUpper(n))
		var camel strings.Builder
		for word := range strings.SplitSeq(n, "_") {
			camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		c := camel.String()
		all = append(all, c)
		if strings.Contains(n, "_") {
			all = append(all, strings.ToLower(c[:1])+c[1:], strings.ReplaceAll(n, "_", "-"))
		}
	}
	return all
}

// stands reports whether a token after behind stands apart: no byte of the set is before the token, unless that byte
// ends an escape, as in JSON, a URL or coloured text.
func (s *set) stands(behind []byte) bool {
	n := len(behind)
	if s == nil || n == 0 || !s[behind[n-1]] {
		return true
	}
	switch last := behind[n-1]; {
	case n >= 2 && behind[n-2] == '\\' && strings.IndexByte("abefnrtv", last) >= 0:
		return true
	case n >= 3 && behind[n-3] == '%' || n >= 4 && bytes.HasPrefix(behind[n-4:], []byte(`\x`)):
		return anyHex[last] && anyHex[behind[n-2]]
	case n >= 6 && bytes.HasPrefix(behind[n-6:], []byte(`\u00`)):
		return anyHex[last] && anyHex[behind[n-2]]
	case last == 'm':
		return coloured(behind)
	}
	return false
}

// coloured reports whether behind ends in a colour, as bytes or as a program writes it in JSON.
func coloured(behind []byte) bool {
	rest := bytes.TrimRight(behind[:len(behind)-1], "0123456789;:")
	rest, ok := bytes.CutSuffix(rest, []byte("["))
	return ok && slices.ContainsFunc([]string{"\x1b", "1b", "1B", "033", `\e`}, func(escape string) bool { return bytes.HasSuffix(rest, []byte(escape)) })
}
