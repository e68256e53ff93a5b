// Package page converts web servers' responses to readable text: the article of HTML as Markdown, the pages of PDF, and
// data and plain text unchanged.
//
// Its input is untrusted. Its functions never fail, and their results have no terminal controls or invisible
// characters. They bound the size of the result, but not their time and memory: the caller must, see package reader.
//
// go-readability finds the article of a page, html-to-markdown and golang.org/x/net/html read and write it,
// ledongthuc/pdf reads PDF, and mimetype detects the type of a body without a header.
package page

import (
	"bytes"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
	"golang.org/x/net/html/charset"
)

// Output formats of HTML. Other types are text in each of them.
const (
	Markdown = "markdown"
	Text     = "text"
	HTML     = "html"
)

// MaxText is the maximum size of a page's text, in bytes.
const MaxText = 8 << 20

// Source is a server's response.
type Source struct {
	URL    string // final address, the base of links
	Type   string // the header Content-Type
	Format string // Markdown (also ""), Text or HTML
	Body   []byte
	Cut    bool // the body was longer
}

// Page is the readable text of a Source.
type Page struct {
	Type      string `json:"type"`                // the detected media type, such as "text/html"
	Title     string `json:"title,omitempty"`     // in one line
	Canonical string `json:"canonical,omitempty"` // the page's canonical address, if it differs
	Text      string `json:"text"`
	Note      string `json:"note,omitempty"` // describes parts that could not be read
}

// Read converts a response to text.
func Read(s Source) (p Page) {
	p.Type = mediaType(s.Type, s.Body)
	switch {
	case len(s.Body) == 0:
		p.Note = "the page is empty"
	case p.Type == "text/html" || p.Type == "application/xhtml+xml":
		readHTML(&p, s)
	case p.Type == "application/pdf":
		readPDF(&p, s)
	case isText(p.Type):
		p.Text = decode(s.Body, s.Type)
	default:
		p.Note = fmt.Sprintf("this is not text: %s, %d bytes", p.Type, len(s.Body))
	}
	if s.Cut && p.Note == "" {
		p.Note = fmt.Sprintf("the page is longer than the %d bytes that were read of it", len(s.Body))
	}
	p.Title = SingleLine(p.Title, 300)
	p.Text = Clean(p.Text)
	if len(p.Text) > MaxText {
		p.Text, _ = Cut(p.Text, 0, MaxText)
		p.Note = fmt.Sprintf("only the first %d bytes of its text were kept", len(p.Text))
	}
	return p
}

// mediaType returns the media type of a body: from the header, unless the body clearly has another one.
func mediaType(header string, body []byte) string {
	declared, _, _ := mime.ParseMediaType(header)
	detected := mimetype.Detect(body)
	is := strings.ToLower(strings.SplitN(detected.String(), ";", 2)[0])
	switch {
	case is == "application/pdf":
		return is
	case declared == "", declared == "application/octet-stream", declared == "binary/octet-stream", declared == "unknown/unknown":
		return is
	case isText(declared) && !isText(is) && !utf8.Valid(body) && !strings.HasPrefix(is, "text/") && is != "application/octet-stream":
		return is // such as a picture served as plain text
	}
	return declared
}

// isText reports whether a media type is readable as text.
func isText(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") ||
		strings.HasSuffix(kind, "+yaml") {
		return kind != "image/svg+xml"
	}
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/ecmascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/x-ndjson", "application/jsonl", "application/json-lines", "application/rtf", "application/sql",
		"application/x-sh", "application/x-httpd-php", "application/x-javascript", "application/csv", "application/graphql":
		return true
	}
	return false
}

// address returns the address that the links of a page are relative to.
func address(s Source) *url.URL {
	u, err := url.Parse(s.URL)
	if err != nil {
		return &url.URL{}
	}
	return u
}

// decode converts a body to UTF-8 from the encoding of its byte order mark, the header or the page itself, or else a
// guess by its bytes.
func decode(body []byte, header string) string {
	encoding, name, certain := charset.DetermineEncoding(body[:min(len(body), 1024)], header)
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
