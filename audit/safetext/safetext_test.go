package safetext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestHidden(t *testing.T) {
	for _, text := range []string{"\x00\n\t\x1b\x7f\u0085\u009b", "\u00ad\u061c\u200b\u200c\u200d\u200e\u2060\u2064\ufeff",
		"\u202a\u202e\u2066\u2069", "\u2028\u2029",
		"\U000e0000\U000e0001\U000e0002\U000e0020\U000e007f\U000e01f0", "\u180b\ufe00\ufe0f\U000e0100",
		"\u034f\u115f\u1160\u17b4\u2065\u3164\uffa0\ufff0", "\ue000\U000f0000\U00100000", "\ufdd0\uffff"} {
		for _, r := range text {
			if !Hidden(r) {
				t.Errorf("%U is not hidden", r)
			}
		}
	}
	for _, r := range "a~ é漢😀e\u0301\u00a0\u3000\u2800\u0600\u06dd\ufffd" {
		if Hidden(r) {
			t.Errorf("%U is hidden", r)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain é 漢字 😀":              "plain é 漢字 😀",
		"\x1b]8;;http://evil\x1b\\": `\x1b]8;;http://evil\x1b\`,
		"a\r\nb\tc\x00\x7f":         `a\x0d\nb\tc\x00\x7f`,
		"\u202etxt.exe":             `\u202etxt.exe`,
		"\u0085\u009b31m":           `\u0085\u009b31m`,
		"a\u200bb\ufeff\u2066":      `a\u200bb\ufeff\u2066`,
		"\U000e0041\U000e0002":      `\U000e0041\U000e0002`,
		"\u3164\u034f👩\u200d💻":      `\u3164\u034f👩\u200d💻`,
		"\xff\xc3(\ufffd":           `\xff\xc3(` + "\ufffd",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		s    string
		max  int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"aäb", 2, "a..."}, {"aäb", 3, "aä..."}, {"a\U0001F600", 4, "a..."},
		{"ä", 0, "..."}, {"ä", 1, "..."},
		{"\x80\x80\x80\x80\x80\x80\x80\x80", 6, "\x80\x80..."}, // no character at all
	} {
		if got := Clip(tt.s, tt.max); got != tt.want {
			t.Errorf("%q, %d: got %q, want %q", tt.s, tt.max, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n\nc\n":     "a\tb\n\nc\n",
		"a\r\nb\rc\xff":   `a\x0d` + "\n" + `b\x0dc\xff`,
		"\x1b[2J\n\u3164": `\x1b[2J` + "\n" + `\u3164`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestModel(t *testing.T) {
	for input, want := range map[string]string{
		"tab\t, line\r\n":                               "tab\t, line\r\n",
		"\x1b[31m\x7f\u009b":                            `\u001b[31m\u007f\u009b`,
		"a\u200bb\u200c\u200d\u2060\ufeff\u00adc":       `a\u200bb\u200c\u200d\u2060\ufeff\u00adc`,
		"\u202e\u2066\u061c\u200f\u2028\u2029":          `\u202e\u2066\u061c\u200f\u2028\u2029`,
		"\U000e0041\U000e007f\U000e0001 \U000e0101":     `\U000e0041\U000e007f\U000e0001 \U000e0101`,
		"x\ufe0f\ufe01\u3164\u115f\u034f":               `x\ufe0f\ufe01\u3164\u115f\u034f`,
		"\xff\ufffd":                                    `\xff\ufffd`,
		"❤\ufe0f 1\ufe0f\u20e3 👩\u200d💻 🏳\ufe0f\u200d🌈": "❤\ufe0f 1\ufe0f\u20e3 👩\u200d💻 🏳\ufe0f\u200d🌈",
		"❤\ufe0f\ufe0f":                                 "❤\ufe0f" + `\ufe0f`,
		"می\u200cخواهم क्\u200dष ":                      "می\u200cخواهم क्\u200dष ",
		"\ue000\U0010fffd\uffff":                        `\ue000\U0010fffd\uffff`,
		"⠇\u2800⡇":                                      "⠇\u2800⡇",
		"äöü €漢字 ∑":                                     "äöü €漢字 ∑",
	} {
		got := Model(input)
		if got != want || Model(got) != got {
			t.Errorf("%+q: got %+q, want %+q; again %+q", input, got, want, Model(got))
		}
	}
}

func Fuzz(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff\U000e0041\n\t\u3164 ❤\ufe0f")
	f.Fuzz(func(t *testing.T, text string) {
		for name, of := range map[string]struct {
			write func(string) string
			stays string
		}{"Line": {Line, ""}, "Text": {Text, "\n\t"}, "Model": {Model, "\n\t\r\ufe0f\u200c\u200d"}} {
			got := of.write(text)
			bad := func(r rune) bool { return Hidden(r) && !strings.ContainsRune(of.stays, r) }
			if !utf8.ValidString(got) || strings.ContainsFunc(got, bad) || of.write(got) != got {
				t.Errorf("%s: %q became %q, and then %q", name, text, got, of.write(got))
			}
			if utf8.ValidString(text) && !strings.ContainsFunc(text, Hidden) && got != text {
				t.Errorf("%s: %q became %q", name, text, got)
			}
			if strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(of.stays, r) }) {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
		encoded, err := json.Marshal(map[string]string{"key": text})
		if err != nil {
			t.Fatal(err)
		}
		hidden := JSON(encoded)
		if strings.ContainsFunc(string(hidden), Hidden) {
			t.Errorf("%q is shown as %q", encoded, hidden)
		}
		var before, after any
		if json.Unmarshal(encoded, &before) != nil || json.Unmarshal(hidden, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%s lost its value: %s", encoded, hidden)
		}
	})
}

func TestHalf(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 0, "é": 0, "a\xc3": 1, "\xe2\x82": 2, "€\xf0\x9f\x98": 3, "😀": 0, "\xff": 0, "a\x82": 0,
		"\x82\x82\x82\x82": 0} {
		if got := UnfinishedRune([]byte(text)); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}
