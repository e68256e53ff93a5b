package relay

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// spelling says how to find placeholders and write values in a part of a request.
type spelling struct {
	escaped    bool // bytes may be written as %XX
	singleLine bool // a line break would end it
	write      func(value string) string
}

var (
	inHeader = spelling{singleLine: true, write: asItIs}
	inQuery  = spelling{singleLine: true, write: percent, escaped: true}
	inForm   = spelling{write: percent, escaped: true}
	inJSON   = spelling{write: insideJSON}
	inText   = spelling{write: asItIs}
)

func asItIs(value string) string { return value }

// percent escapes a space as %20, which is understood in forms, too.
func percent(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// insideJSON returns the escaped value for between the quotes of a JSON string.
func insideJSON(value string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return "" // can't be: every string has its JSON
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// prefix returns how much of text, at its beginning, spells the placeholder; 0 is that it does not.
func (s spelling) prefix(text, placeholder string) int {
	if placeholder == "" {
		return 0
	}
	if !s.escaped {
		if strings.HasPrefix(text, placeholder) {
			return len(placeholder)
		}
		return 0
	}
	n := 0
	for i := range len(placeholder) {
		c, size := unescape(text[n:])
		if size == 0 || c != placeholder[i] {
			return 0
		}
		n += size
	}
	return n
}

// unescape returns the first byte of text, and how many bytes spell it.
func unescape(text string) (c byte, size int) {
	if text == "" {
		return 0, 0
	}
	if text[0] == '%' && len(text) >= 3 {
		if high, low := digit(text[1]), digit(text[2]); high >= 0 && low >= 0 {
			return byte(high<<4 | low), 3
		}
	}
	return text[0], 1
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
