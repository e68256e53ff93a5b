package vault

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// escaped adds the prefixes of symbols with punctuation that is escaped, some or all, in one style.
func (e *explorer) escaped(group int, symbols []string) {
	var parts [known]string
	copy(parts[:], symbols)
	for set := 1; set < 1<<window; set++ {
		special := true
		for i, s := range symbols[:window] {
			special = special && (set>>i&1 == 0 || !isWord(s[0]) || s == "_")
		}
		if !special {
			continue
		}
		for _, m := range escapes() {
			for i, s := range symbols[:window] {
				parts[i] = s
				if set>>i&1 == 1 {
					parts[i] = m.spelled[s[0]]
				}
			}
			if m.exact {
				e.add(group, parts[:]...)
			} else {
				e.addOnly(group, parts[:]...)
			}
		}
	}
}

// urlsafe converts symbols of base64 to base64url.
func urlsafe(symbols []string) []string {
	url := slices.Clone(symbols)
	for i, s := range url {
		switch s {
		case "+":
			url[i] = "-"
		case "/":
			url[i] = "_"
		}
	}
	return url
}

// manner is a way to write bytes as escapes.
type manner struct {
	spelled [256]string
	exact   bool // there is no other spelling with the same prefix
}

// escapes is the manners that escape knows, as far as prefixes differ.
var escapes = sync.OnceValue(func() (all []manner) {
	for i, format := range []string{`\%c`, "%%%02x", "%%25%02x", `\x%02x`, `\\x%02x`, `\u%04x`, `\\u%04x`, "=%02x", `\U%08x`,
		`\\\%c`, `\u{%x}`, `\%o`, `\%03o`, `\\%03o`, "&#%d;", "&#%03d;", "&#x%x;", "&#x%02x;",
		"&amp;#", "&quot;", "&lt;", "&gt;", "&apos;", "&amp;"} {
		m := manner{exact: i < 9}
		for c := range m.spelled {
			m.spelled[c] = format
			if strings.Contains(format, "%") {
				m.spelled[c] = fmt.Sprintf(format, c)
			}
		}
		all = append(all, m)
	}
	url := manner{exact: true}
	url.spelled['+'], url.spelled['/'] = "-", "_"
	return append(all, url)
})
