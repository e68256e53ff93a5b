package page

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// span is a piece of a program's output and its style, as names of classes. The text has no control characters except
// line ends, tabs and carriage returns, and no invisible or reordering characters.
type span struct {
	Class string `json:"c,omitempty"`
	Text  string `json:"t"`
}

// screen interprets the output of one stream, piece by piece. It applies escape sequences for colours and faces, and
// drops others.
type screen struct {
	tokens safetext.Tokens
	style  style
}

type style struct {
	fore, back                        int // 1 to 16; 0 is the default
	bold, dim, italic, under, inverse bool
}

// write returns the spans of a piece of output.
func (s *screen) write(b []byte) (all []span) {
	var text []byte
	flush := func() {
		if len(text) == 0 {
			return
		}
		plain := visible(string(text))
		if class := s.style.class(); len(all) > 0 && all[len(all)-1].Class == class {
			all[len(all)-1].Text += plain
		} else {
			all = append(all, span{class, plain})
		}
		text = text[:0]
	}
	for t, inString := range s.tokens.Split(b, false) {
		private, numbers, final, control := safetext.ParseControl(t)
		switch {
		case inString, strings.IndexByte("\a\x00\x0e\x0f", t[0]) >= 0: // a bell, or a selection of a character set
		case control && private+final == "m":
			flush()
			s.style.set(numbers)
		case t[0] == 0x1b:
		case t[0] == '\b': // overstruck text
			if _, size := utf8.DecodeLastRune(text); size > 0 && text[len(text)-1] != '\n' {
				text = text[:len(text)-size]
			}
		default:
			text = append(text, t...)
		}
	}
	flush()
	return all
}

// visible escapes characters that must not reach a reader unchanged. A carriage return stays: it restarts the line.
func visible(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	parts := strings.Split(text, "\r")
	for i, part := range parts {
		parts[i] = safetext.Text(part)
	}
	return strings.Join(parts, "\r")
}

// set changes the style by parameters of SGR (ECMA-48, 8.3.117).
func (l *style) set(params string) {
	codes := strings.FieldsFunc(params, func(r rune) bool { return r == ';' || r == ':' })
	if len(codes) == 0 {
		codes = []string{"0"}
	}
	on := map[int]*bool{1: &l.bold, 2: &l.dim, 3: &l.italic, 4: &l.under, 7: &l.inverse}
	for i := 0; i < len(codes); i++ {
		n, _ := strconv.Atoi(codes[i])
		switch {
		case n == 0:
			*l = style{}
		case on[n] != nil:
			*on[n] = true
		case n == 22:
			l.bold, l.dim = false, false
		case n > 22 && on[n-20] != nil:
			*on[n-20] = false
		case n >= 30 && n <= 37:
			l.fore = n - 29
		case n >= 90 && n <= 97:
			l.fore = n - 81
		case n >= 40 && n <= 47:
			l.back = n - 39
		case n >= 100 && n <= 107:
			l.back = n - 91
		case n == 39:
			l.fore = 0
		case n == 49:
			l.back = 0
		case n == 38 || n == 48:
			colour, used := extended(codes[i+1:])
			i += used
			if n == 38 {
				l.fore = colour
			} else {
				l.back = colour
			}
		}
	}
}

// extended returns the nearest of our 16 colours for one of 256, or of red, green and blue, and the number of its
// parameters.
func extended(codes []string) (colour, used int) {
	number := func(i int) int {
		if i >= len(codes) {
			return 0
		}
		n, _ := strconv.Atoi(codes[i])
		return min(max(n, 0), 255)
	}
	switch {
	case number(0) == 2:
		return nearest(number(1), number(2), number(3)), min(4, len(codes))
	case number(0) != 5:
		return 0, min(1, len(codes))
	}
	n := number(1)
	switch {
	case n < 16:
		return n + 1, min(2, len(codes))
	case n >= 232:
		grey := 8 + 10*(n-232)
		return nearest(grey, grey, grey), min(2, len(codes))
	}
	level := func(v int) int { return []int{0, 95, 135, 175, 215, 255}[v%6] }
	n -= 16
	return nearest(level(n/36), level(n/6), level(n)), min(2, len(codes))
}

// palette has approximately the 16 colours of terminals.
var palette = [16][3]int{{0, 0, 0}, {170, 0, 0}, {0, 170, 0}, {170, 85, 0}, {0, 0, 170}, {170, 0, 170}, {0, 170, 170}, {170, 170, 170},
	{85, 85, 85}, {255, 85, 85}, {85, 255, 85}, {255, 255, 85}, {85, 85, 255}, {255, 85, 255}, {85, 255, 255}, {255, 255, 255}}

func nearest(r, g, b int) int {
	best, least := 0, 1<<30
	for i, c := range palette {
		dr, dg, db := r-c[0], g-c[1], b-c[2]
		if d := dr*dr + dg*dg + db*db; d < least {
			best, least = i+1, d
		}
	}
	return best
}

// class returns the classes of a style.
func (l style) class() string {
	fore, back := l.fore, l.back
	var all []string
	if l.inverse {
		fore, back = back, fore
		if fore == 0 && back == 0 {
			all = append(all, "inv")
		}
	}
	if fore > 0 {
		all = append(all, "f"+strconv.Itoa(fore))
	}
	if back > 0 {
		all = append(all, "k"+strconv.Itoa(back))
	}
	for name, on := range map[string]bool{"b": l.bold, "d": l.dim, "i": l.italic, "u": l.under} {
		if on {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
