package relay

import (
	"bytes"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// markups escape characters as pages and XML do, a replacer for each library of servers.
var markups = []*strings.Replacer{
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;"),                                                                                         // text of XML
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;"),                                                             // Go, Jinja
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;"),                                               // Go's templates
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;", "=", "&#61;", "`", "&#96;", " ", "&#32;"),     // ... without quotes
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;"),                                                            // Ruby, JavaScript
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;"),                                                           // Python
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#039;"),                                                           // PHP
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;"),                                                           // Java, XML
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=", "&#x3D;"),               // Mustache
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=", "&#x3D;", "+", "&#43;"), // Handlebars
	strings.NewReplacer("&", `\u0026amp;`, "<", `\u0026lt;`, ">", `\u0026gt;`, `"`, `\u0026#34;`, "'", `\u0026#39;`),                                    // a page in JSON
}

// respelled returns how servers write value that programs do not, and that a Redactor need not know: in
// pages, and in an address within an address, as where it says to log in first.
func respelled(value string) []string {
	var all []string
	for _, m := range markups {
		all = append(all, m.Replace(value))
	}
	for _, once := range []string{url.QueryEscape(value), percent(value), url.PathEscape(value)} {
		twice := url.QueryEscape(once)
		all = append(all, twice, escapes.ReplaceAllStringFunc(twice, strings.ToLower))
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return s == value })
}

// escapes matches the escapes of an address within an address. Some programs write their digits with small letters.
var escapes = regexp.MustCompile(`%(?:25)?[0-9A-F]{2}`)

// rewritings are the other spellings of values that are removed from answers.
type rewritings struct {
	texts []string
	mark  string // what stands there instead
}

func (x *exchange) respell() (o rewritings) {
	if x.relay.cfg.Redact == nil {
		return o
	}
	for _, s := range x.filled {
		value := s.Value()
		mark := x.relay.cfg.Redact(value)
		if value == "" || mark == value { // what is not looked for as it is, is not either
			continue
		}
		o.texts, o.mark = append(o.texts, respelled(value)...), mark
	}
	return o
}

func (o rewritings) redact(text string) string {
	for _, s := range o.texts {
		text = strings.ReplaceAll(text, s, o.mark)
	}
	return text
}

// respeller removes spellings from text that it passes on. It holds back a possible beginning of a spelling.
type respeller struct {
	rewritings
	next io.WriteCloser
	held []byte
}

func (r *respeller) Write(p []byte) (int, error) {
	r.held = append(r.held, p...)
	var clean []byte
	for {
		at, size := r.find()
		if size == 0 {
			break
		}
		clean = append(append(clean, r.held[:at]...), r.mark...)
		r.held = r.held[at+size:]
	}
	sure := len(r.held) - r.pending()
	clean = append(clean, r.held[:sure]...)
	r.held = append(r.held[:0], r.held[sure:]...)
	if len(clean) == 0 {
		return len(p), nil
	}
	if _, err := r.next.Write(clean); err != nil {
		return 0, err
	}
	return len(p), nil
}

// find returns where the first spelling is, the longest of those there, and its size; 0 is that there
// is none.
func (r *respeller) find() (at, size int) {
	at = len(r.held)
	for _, s := range r.texts {
		if i := bytes.Index(r.held[:min(len(r.held), at+len(s))], []byte(s)); i >= 0 && (i < at || len(s) > size) {
			at, size = i, len(s)
		}
	}
	return at, size
}

// pending returns how many of the last bytes may be the beginning of a spelling.
func (r *respeller) pending() int {
	longest := 0
	for _, s := range r.texts {
		for n := min(len(s)-1, len(r.held)); n > longest; n-- {
			if string(r.held[len(r.held)-n:]) == s[:n] {
				longest = n
			}
		}
	}
	return longest
}

// Close writes the bytes that were held back.
func (r *respeller) Close() error {
	_, err := r.next.Write(r.held)
	clear(r.held)
	if closed := r.next.Close(); err == nil {
		err = closed
	}
	return err
}
