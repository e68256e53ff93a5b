package safetext

import (
	"fmt"
	"strings"
	"testing"
)

// tokensOf returns the tokens of text that arrives in pieces of n bytes; those of strings are in brackets.
func tokensOf(t *testing.T, text string, n int) (all []string) {
	t.Helper()
	var s Tokens
	for rest := []byte(text); ; {
		piece := rest[:min(n, len(rest))]
		rest = rest[len(piece):]
		for token, inString := range s.Split(piece, len(rest) == 0) {
			if one := string(token); inString {
				all = append(all, "<"+one+">")
			} else {
				all = append(all, one)
			}
		}
		if len(s.held) > longestSequence {
			t.Fatalf("%d bytes are held back", len(s.held))
		}
		if len(rest) == 0 {
			return all
		}
	}
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"plain é\n":                        "plain |é|\n",
		"a\x1b[31mb":                       "a|\x1b[31m|b",
		"\x1b(Ba\x1b%Gb\x1b#8":             "\x1b(B|a|\x1b%G|b|\x1b#8",
		"\x1b]0;ü\x07b":                    "<\x1b]>|<0;>|<ü>|<\x07>|b",
		"\x1bPx\x1b\\b\u009dx\u009cc":      "<\x1bP>|<x>|<\x1b\\>|b|<\u009d>|<x>|<\u009c>|c",
		"\x1bkx\x18b\x1b_x\x1b[mc":         "<\x1bk>|<x>|<\x18>|b|<\x1b_>|<x>|<\x1b[m>|c",
		"\x1b]x\x1b]y\x07z":                "<\x1b]>|<x>|<\x1b]>|<y>|<\x07>|z",
		"\x1b[1\x1b[2\na\x1b":              "\x1b[1|\x1b[2|\na|\x1b",
		"\xff\xc3(\xf0\x9f":                "\xff|\xc3|(|\xf0\x9f",
		"\x1b[" + strings.Repeat("1", 300): "\x1b[" + strings.Repeat("1", longestSequence-2) + "|" + strings.Repeat("1", 300-longestSequence+2),
	} {
		if got := strings.Join(tokensOf(t, text, len(text)+1), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for token, want := range map[string]string{
		"\x1b[31;1m": " 31;1 m true", "\x1b[?25h": "? 25 h true", "\x1b[>4:2m": "> 4:2 m true", "\x1b[5 q": " 5  q true", "\x1b[m": "  m true",
		"\x1b[1?25l": " 1 ?25l false", "\x1b[??1h": "? ? ?1h false", "\x1b[31": " 31  false", "\x1b[1 2h": " 1  2h false", "\x1b[": "   false",
		"\x1bM": "   false", "text": "   false",
	} {
		private, numbers, final, ok := ParseControl([]byte(token))
		if got := fmt.Sprint(private, " ", numbers, " ", final, " ", ok); ok && got != want || ok != strings.HasSuffix(want, "true") {
			t.Errorf("%q: got %q, want %q", token, got, want)
		}
	}
}

// FuzzTokens: all of any text, in any pieces, is in tokens, and text between sequences is unchanged.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{"plain\r\n\t\b", "\x1b[31mred\x1b[0m\x1b[K", "\x1b]0;t\a\x9b2J\u009b\u202e", "\x1b[\x1b[3\x1b[1;1m",
		"\xe2\x82\xac\xe2\x82", "\x1bPq\x1b\\\x1bkx"} {
		f.Add(text, uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		whole, pieces := tokensOf(t, text, len(text)+1), tokensOf(t, text, int(n%7)+1)
		plain := func(tokens []string) string { return strings.ReplaceAll(strings.Join(tokens, ""), "><", "") }
		if got := plain(pieces); got != plain(whole) {
			t.Fatalf("%q in pieces, %q whole", pieces, whole)
		}
		if got := strings.NewReplacer("<", "", ">", "").Replace(strings.Join(whole, "")); got != strings.NewReplacer("<", "", ">",
			"").Replace(text) {
			t.Fatalf("%q became %q", text, whole)
		}
	})
}
