package vault

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reference returns the matches of regular expressions, tried at each position: slow, but simple enough to be
// trusted. It shares no code with the scan except partsOf.
func reference(values []string, text string) []span {
	all := expressions(values)
	wide := []rune(latin(text)) // a rune per byte: regexp does not support bytes
	var spans []span
	for i := range wide {
		rest, longest := string(wide[i:]), 0
		for _, re := range all {
			longest = max(longest, utf8.RuneCountInString(re.FindString(rest)))
		}
		s := span{int64(i), int64(i + longest)}
		if n := len(spans); n > 0 && longest > 0 && spans[n-1].to > s.from {
			spans[n-1].to = max(spans[n-1].to, s.to)
		} else if longest > 0 {
			spans = append(spans, s)
		}
	}
	return spans
}

// expressions returns one expression per part of the values and encoding.
func expressions(values []string) []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, v := range values {
		for _, part := range redactableParts([]byte(v)) {
			p := string(part)
			exprs := []string{textExpr(p), hexExpr(p)}
			for offset := range 3 {
				exprs = append(exprs, base64Expr(p, offset))
			}
			for _, e := range exprs {
				re := regexp.MustCompile("^(?s:" + e + ")")
				re.Longest()
				all = append(all, re)
			}
		}
	}
	return all
}

func latin(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

const breakExpr = `(?:\r?\n|(?:\\r)?\\n)?`

func textExpr(v string) string {
	var b strings.Builder
	for len(v) > 0 {
		r, size := utf8.DecodeRuneInString(v)
		var bytes strings.Builder
		for i := range size {
			bytes.WriteString(byteExpr(v[i], size > 1))
		}
		b.WriteString("(?:" + bytes.String() + "|" + unitExpr(r, v[0], size) + ")")
		v = v[size:]
	}
	return b.String()
}

// byteExpr matches one byte, escaped or not.
func byteExpr(c byte, part bool) string {
	alternatives := []string{
		regexp.QuoteMeta(string(rune(c))),
		fmt.Sprintf(`%%(?i:%02x)`, c),
		fmt.Sprintf(`\\x(?i:%02x)`, c),
	}
	if i := strings.IndexByte("\n\r\t\b\f", c); i >= 0 {
		alternatives = append(alternatives, `\\`+"nrtbf"[i:i+1])
	} else if strings.IndexByte(" !\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~", c) >= 0 {
		alternatives = append(alternatives, `\\`+regexp.QuoteMeta(string(rune(c))))
	}
	if c == ' ' {
		alternatives = append(alternatives, `\+`)
	}
	if part && c < 0xc0 { // a single continuation byte
		alternatives = append(alternatives, unitExpr(utf8.RuneError, c, 1))
	}
	return "(?:" + strings.Join(alternatives, "|") + ")"
}

func unitExpr(r rune, c byte, size int) string {
	if r == utf8.RuneError && size == 1 {
		r = 0xdc00 + rune(c)
	}
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return fmt.Sprintf(`\\u(?i:%04x)\\u(?i:%04x)`, high, low)
	}
	return fmt.Sprintf(`\\u(?i:%04x)`, r)
}

func hexExpr(v string) string {
	var all []string
	for i := range len(v) {
		h := fmt.Sprintf("%02x", v[i])
		all = append(all, "(?i:"+h[:1]+")", "(?i:"+h[1:]+")")
	}
	return strings.Join(all, breakExpr)
}

func base64Expr(v string, offset int) string {
	const std = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var bits strings.Builder
	bits.WriteString(strings.Repeat("?", 8*offset))
	for i := range len(v) {
		fmt.Fprintf(&bits, "%08b", v[i])
	}
	for bits.Len()%6 != 0 {
		bits.WriteByte('?')
	}
	var whole []string
	tail := ""
	for s := bits.String(); s != ""; s = s[6:] {
		var fits []string
		for i := range len(std) {
			if !matchesBits(s[:6], i) {
				continue
			}
			fits = append(fits, regexp.QuoteMeta(std[i:i+1]))
			if i >= 62 {
				fits = append(fits, byteExpr(std[i], false), fmt.Sprintf(`\\u(?i:%04x)`, std[i]), "-_"[i-62:i-61])
			}
		}
		expr := "(?:" + strings.Join(fits, "|") + ")"
		switch strings.Index(s[:6], "?") {
		case -1:
			whole = append(whole, expr)
		case 2, 4:
			pad := breakExpr + `(?:` + byteExpr('=', false) + `|\\u(?i:003d))`
			tail = "(?:" + pad + ")?"
			if strings.Index(s[:6], "?") == 2 {
				tail = "(?:" + pad + tail + ")?"
			}
			tail = "(?:" + breakExpr + expr + tail + ")?"
		}
	}
	return strings.Join(whole, breakExpr) + tail
}

// matchesBits reports whether i has these bits; ? matches both.
func matchesBits(bits string, i int) bool {
	for n := range 6 {
		if bits[n] != '?' && bits[n] != "01"[i>>(5-n)&1] {
			return false
		}
	}
	return true
}
