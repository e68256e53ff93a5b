package terminal

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// filtered returns the output for text that is written in pieces.
func filtered(t *testing.T, text string, size func() int) string {
	t.Helper()
	var b bytes.Buffer
	f := &Filter{W: &b}
	for p := []byte(text); len(p) > 0; {
		n := min(max(size(), 1), len(p))
		if got, err := f.Write(p[:n]); got != n || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
		p = p[n:]
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFilter(t *testing.T) {
	const off = "\x1b[0m"
	for _, tt := range []struct{ name, text, want string }{
		{"text", "plain, Grüße, 日本語 😀\r\n\tend\n", ""},
		{"progress", "\r 10%\r\x1b[K 20%\b\b\x1b[2K", ""},
		{"colours", "\x1b[31mred\x1b[0m \x1b[1;38;2;255;100;0mx\x1b[m \x1b[38:2::1:2:3my\x1b[00;0m", ""},
		{"colour left on", "\x1b[31mred", "\x1b[31mred" + off},
		{"black left on", "\x1b[38;5;0mx", "\x1b[38;5;0mx" + off},
		{"other erasing", "\x1b[3K\x1b[?K\x1b[12K", `\x1b[3K\x1b[?K\x1b[12K`},
		{"cursor", "\x1b[2J\x1b[H\x1b[5A\x1b7\x1bM", `\x1b[2J\x1b[H\x1b[5A\x1b7\x1bM`},
		{"modes", "\x1b[?25l\x1b[?1049h\x1b[>4;2m\x1b[!p\x1bc", `\x1b[?25l\x1b[?1049h\x1b[>4;2m\x1b[!p\x1bc`},
		{"title", "\x1b]0;root@host\x07", `\x1b]0;root@host\x07`},
		{"clipboard", "\x1b]52;c;cm0gLXJm\x1b\\", `\x1b]52;c;cm0gLXJm\x1b\`},
		{"link", "\x1b]8;;https://a.example\x1b\\b.example\x1b]8;;\x1b\\", `\x1b]8;;https://a.example\x1b\b.example\x1b]8;;\x1b\`},
		{"queries", "\x1b[6n\x1b[c\x1bZ\x05", `\x1b[6n\x1b[c\x1bZ\x05`},
		{"strings", "\x1bPq\x1b\\\x1b_x\x1b\\\x1b^y\x1b\\\x1bXz\x1b\\", `\x1bPq\x1b\\x1b_x\x1b\\x1b^y\x1b\\x1bXz\x1b\`},
		{"C1 as bytes", "\x9b2J\x9d0;x\x9c\x90", `\x9b2J\x9d0;x\x9c\x90`},
		{"C1 as UTF-8", "\u009b2J\u009d0;x\u009c", `\u009b2J\u009d0;x\u009c`},
		{"other controls", "\x00\a\v\f\x0e\x0f\x7f", `\x00\x07\x0b\x0c\x0e\x0f\x7f`},
		{"bidi", "a\u202eb\u2066c\u200f", `a\u202eb\u2066c\u200f`},
		{"invisible", "a\u200bb\ufeff\u2028\U000e0041", `a\u200bb\ufeff\u2028\U000e0041`},
		{"no UTF-8", "\xff\xc3(\xe2\x82 \xf0\x9f\x98", `\xff\xc3(\xe2\x82 \xf0\x9f\x98`},
		{"nested", "\x1b[\x1b[31mx\x1b[0m\x1b\x1b[2J", `\x1b[` + "\x1b[31mx\x1b[0m" + `\x1b\x1b[2J`},
		{"unfinished", "x\x1b[31", `x\x1b[31`},
		{"only the beginning", "x\x1b", `x\x1b`},
		{"without end", "\x1b[" + strings.Repeat("1;", 500) + "m", `\x1b[` + strings.Repeat("1;", 500) + "m"},
		{"overlong", "\xc0\x9b\xe0\x80\x9b", `\xc0\x9b\xe0\x80\x9b`},
	} {
		want := tt.want
		if want == "" {
			want = tt.text
		}
		for n := range 9 {
			if got := filtered(t, tt.text, func() int { return n }); got != want {
				t.Errorf("%s in pieces of %d:\n got %q\nwant %q", tt.name, n, got, want)
			}
		}
	}
}

// A write outputs at once everything that is unambiguous.
func TestFilterHolds(t *testing.T) {
	for text, want := range map[string]string{"Name: ": "Name: ", "50%\r": "50%\r", "é\x1b[1m": "é\x1b[1m", "a\x1b[3": "a", "b\xc3": "b",
		"c\x1b": "c", "d\xff": `d\xff`} {
		var b bytes.Buffer
		f := &Filter{W: &b}
		if io.WriteString(f, text); b.String() != want {
			t.Errorf("%q shows %q, want %q", text, b.String(), want)
		}
	}
}

func TestFilterFails(t *testing.T) {
	f := &Filter{W: brokenScreen{}}
	for _, text := range []string{"text", "\x1b[2J", "é"} {
		if n, err := io.WriteString(f, text); n != 0 || err == nil {
			t.Errorf("%q: got %d, %v", text, n, err)
		}
	}
}

type brokenScreen struct{}

func (brokenScreen) Write([]byte) (int, error) { return 0, errors.New("the terminal is gone") }

var mayPass = regexp.MustCompile(`\x1b\[[0-9;:]*m|\x1b\[[0-2]?K`)

func FuzzFilter(f *testing.F) {
	for _, s := range []string{"plain\r\n\t\b", "\x1b[31mred\x1b[0m\x1b[K", "\x1b]0;t\a\x9b2J\u009b\u202e", "\x1b[\x1b[3\x1b[1;1m",
		"\xe2\x82\xac\xe2\x82", "\x1b[38;5;0m"} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		want := filtered(t, text, func() int { return len(text) })
		if got := filtered(t, text, func() int { return r.IntN(5) }); got != want {
			t.Fatalf("%q\n whole  %q\n pieces %q", text, want, got)
		}
		rest := mayPass.ReplaceAllString(want, "")
		if i := strings.IndexFunc(rest, func(r rune) bool { return safetext.Hidden(r) && !strings.ContainsRune("\n\r\t\b", r) }); i >= 0 ||
			!utf8.ValidString(want) {
			t.Fatalf("%q gets to the terminal as %q", text, want)
		}
		if !utf8.ValidString(text) || strings.IndexFunc(text, safetext.Hidden) >= 0 {
			return
		}
		if want != text {
			t.Fatalf("%q is shown as %q", text, want)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	for name, line := range map[string]string{"plain": "2026-01-02 INFO request done\n",
		"coloured": "\x1b[32mok\x1b[0m request done Grüße\n"} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(line, 1000))
			f := &Filter{W: io.Discard}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				f.Write(text)
			}
		})
	}
}
