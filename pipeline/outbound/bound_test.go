package outbound

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"html"
	"html/template"
	"net/url"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/vault"
)

func TestInClear(t *testing.T) {
	for _, c := range []struct {
		hosts []string
		name  string
		port  int
		clear bool
	}{
		{[]string{"a.example"}, "a.example", 80, false},
		{[]string{"a.example"}, "a.example", 443, false},
		{[]string{"a.example:80"}, "a.example", 80, true},
		{[]string{"a.example:8080"}, "a.example", 8080, true},
		{[]string{"*.a.example:8080"}, "b.a.example", 8080, true},
		{[]string{"a.example:8080"}, "a.example", 80, false},
		{[]string{"a.example:443"}, "a.example", 443, false}, // a program could say http there
		{[]string{"a.example:8443"}, "a.example", 8443, false},
		{[]string{"a.example:80", "b.example"}, "b.example", 80, false}, // the port is another host's
		{[]string{"a.example:80", "b.example"}, "a.example", 80, true},
		{nil, "a.example", 80, false},
	} {
		if got := namesOf(c.hosts).allowsClear(c.name, c.port); got != c.clear {
			t.Errorf("%v: %s:%d in the clear: got %v", c.hosts, c.name, c.port, got)
		}
	}
}

// serverSpellings are how servers write a value in pages, and in an address within an address, as where one has to log
// in first.
func serverSpellings(v string) map[string]string {
	var asXML bytes.Buffer
	xml.EscapeText(&asXML, []byte(v))
	var page strings.Builder
	template.Must(template.New("").Parse(`{{.}} <a title={{.}}>`)).Execute(&page, v)
	inJSON, _ := json.Marshal(html.EscapeString(v))
	basic := []string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}
	escaped := func(more ...string) string { return strings.NewReplacer(append(basic, more...)...).Replace(v) }
	query := strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
	return map[string]string{
		"Go": html.EscapeString(v), "template": page.String(), "XML": asXML.String(), "XML text": escaped(), "JSON": string(inJSON),
		"Ruby": escaped(`"`, "&quot;", "'", "&#39;"), "Python": escaped(`"`, "&quot;", "'", "&#x27;"),
		"PHP":  escaped(`"`, "&quot;", "'", "&#039;"),
		"Java": escaped(`"`, "&quot;", "'", "&apos;"), "Mustache": escaped(`"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=",
			"&#x3D;"),
		"twice": url.QueryEscape(url.QueryEscape(v)), "login": url.QueryEscape(query),
		"small": strings.ToLower(url.QueryEscape(query)), "path": url.QueryEscape(url.PathEscape(v)),
	}
}

// TestServersSpellings: a bound secret in an answer is recognised in all of these spellings, at once and in pieces.
func TestServersSpellings(t *testing.T) {
	for _, v := range []string{`s3cr3t-va/ue+with-=odd "marks"`, `p&ss<w>'rd"9x+/=`, "a b&c'd/e+f=g%h`i", `==='<"&`, "a=='==b/", "k=`='==+",
		"=&=< ='x", `="=='=a`} {
		lease, err := vault.New(one(v)).Lease(t.Context(), "team", []string{"KEY"})
		if err != nil {
			t.Fatal(err)
		}
		o := &Session{cfg: Config{Leases: func() vault.Leases { return vault.Leases{lease} }}}
		for name, text := range serverSpellings(v) {
			text = "<" + text + ">"
			whole := o.relayed().Redact(text)
			var pieces bytes.Buffer
			w := o.relayed().Redactor(&pieces)
			for i := range text {
				w.Write([]byte(text[i : i+1]))
			}
			w.Close()
			if !strings.Contains(whole, vault.Mark) || pieces.String() != whole || strings.ContainsAny(strings.ReplaceAll(whole, vault.Mark, ""),
				"&%") {
				t.Errorf("%s: %s became %s, and in pieces %s", name, text, whole, &pieces)
			}
		}
		lease.Close()
	}
}

// one is a secret KEY, which is bound.
type one string

func (s one) Get(context.Context, string, string) ([]byte, vault.Binding, error) {
	return []byte(s), vault.Binding{Hosts: []string{"a.example"}}, nil
}
