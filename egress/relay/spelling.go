package relay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// spelling describes the encoding of a part of a request, for placeholders and values.
type spelling struct {
	escaped    bool // bytes may be written as %XX
	singleLine bool // a line break would end it
	write      func(value string) string
}

var (
	inHeader = spelling{singleLine: true, write: verbatim}
	inQuery  = spelling{singleLine: true, write: percentEncode, escaped: true}
	inForm   = spelling{write: percentEncode, escaped: true}
	inJSON   = spelling{write: escapeJSON}
	inText   = spelling{write: verbatim}
)

func verbatim(value string) string { return value }

// percentEncode escapes a space as %20, which is valid in forms, too.
func percentEncode(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// escapeJSON returns the escaped value for the inside of a JSON string.
func escapeJSON(value string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return "" // can't happen for a string
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// placeholderLength returns the length of the placeholder's spelling at the start of text, or 0.
func (s spelling) placeholderLength(text, placeholder string) (n int) {
	for i := range len(placeholder) {
		switch rest := text[n:]; {
		case rest != "" && rest[0] == placeholder[i]:
			n++
		case s.escaped && len(rest) >= 3 && rest[0] == '%' && strings.EqualFold(rest[1:3], hex.EncodeToString([]byte{placeholder[i]})):
			n += 3
		default:
			return 0
		}
	}
	return n
}
