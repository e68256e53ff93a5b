package vault

import (
	"strings"
	"testing"
)

// TestFoundBehindWhatIsSkipped: skipping stops in time before values with few letters, and before those whose first
// letters the index does not have.
func TestFoundBehindWhatIsSkipped(t *testing.T) {
	filler := strings.Repeat("Nothing is here: 12:05, or so. ", 5)
	for name, c := range map[string]struct{ value, text, want string }{
		"few letters":                {"p@$$w!", "p@$$w!", Mark},
		"few letters, escaped":       {"p@$$w!", "p%40$\\u0024w&#33;", Mark},
		"few letters, folded":        {"p@$$w!", "p@$\n    $w!", Mark},
		"few letters, far apart":     {"!00001", "!\x00\x00\x000\x00\x00\x000\x00\x00\x000\x00\x00\x000\x00\x00\x001", Mark},
		"dots and digits":            {"1.2.3.4", "1.2.3.4", Mark},
		"marks before letters":       {"$$$hunter-x", "$$$hunter-x", Mark},
		"many marks before letters":  {"-#-#-#-#-hunter", "-#-#-#-#-hunter", Mark},
		"begins within an escape":    {"n4k-secret-9", `\n4k-secret-9`, `\` + Mark},
		"begins at its end":          {"0abc-secret", `%20abc-secret`, `%2` + Mark},
		"hex within an escape":       {"00000012", `\3030303030303132`, `\3030` + Mark},
		"an indent in a URL":         {"00001\n 2", "00001%0A+2", Mark},
		"begins right behind an and": {"#33;hunter2", "&#33;hunter2", "&" + Mark},
		"an escape itself":           {`%41%42%43`, `%41%42%43`, Mark},
		"a common word with a mark":  {"secret=", "secret=", Mark},
		"an equals sign":             {"a=b=c=d", "a=b=c=d", Mark},
		"a control character":        {"ab\x01cd\x02ef", "ab\x01cd\x02ef", Mark},
	} {
		l := lease(t, c.value)
		for n := range 8 { // its start position must not matter
			text, want := filler[n:]+c.text+filler, filler[n:]+c.want+filler
			for _, size := range []int{1, 40, len(text)} {
				if got := stream(t, l, text, size); got != want {
					t.Errorf("%s: %q in pieces of %d\n got %q\nwant %q", name, text, size, got, want)
				}
			}
		}
	}
}
