package page

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// decode makes UTF-8 of a body: by its byte order mark, the header, what the page says of itself, or else by what
// its bytes can be.
func decode(body []byte, header string) string {
	encoding, name, certain := charset.DetermineEncoding(head(body), header)
	if !certain && utf8.Valid(body) || name == "utf-8" {
		body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
		return strings.ToValidUTF8(string(body), "\ufffd")
	}
	text, err := encoding.NewDecoder().Bytes(body)
	if err != nil {
		return strings.ToValidUTF8(string(body), "\ufffd")
	}
	return strings.TrimPrefix(string(text), "\ufeff")
}

// head is where a page says how it is encoded: in its first 1024 bytes.
func head(body []byte) []byte { return body[:min(len(body), 1024)] }
