package plain

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"plain é 漢字 😀":              "plain é 漢字 😀",
		"\x1b]8;;http://evil\x1b\\": `\x1b]8;;http://evil\x1b\`,
		"a\r\nb\tc\x00\x7f":         `a\x0d\nb\tc\x00\x7f`,
		"\u202etxt.exe":             `\u202etxt.exe`,
		"\u0085\u009b31m":           `\u0085\u009b31m`,
		"a\u200bb\ufeff\u2066":      `a\u200bb\ufeff\u2066`,
		"\U000e0041":                `\U000e0041`,
		"\xff\xc3(":                 `\xff\xc3(`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff\U000e0041")
	f.Fuzz(func(t *testing.T, text string) {
		got := Text(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q became %q", text, got)
		}
		if Text(got) != got {
			t.Errorf("%q became %q, and then %q", text, got, Text(got))
		}
		encoded, err := json.Marshal(map[string]string{"key": text})
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(encoded)
		if strings.ContainsFunc(string(shown), Hidden) {
			t.Errorf("%q is shown as %q", encoded, shown)
		}
		var before, after any
		if json.Unmarshal(encoded, &before) != nil || json.Unmarshal(shown, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%s lost its value: %s", encoded, shown)
		}
	})
}
