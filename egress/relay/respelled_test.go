package relay

import (
	"bytes"
	"encoding/xml"
	"html"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// serverSpellings are how servers write text.
func serverSpellings(v string) map[string]string {
	var asXML bytes.Buffer
	xml.EscapeText(&asXML, []byte(v))
	var page strings.Builder
	template.Must(template.New("").Parse(`{{.}}`)).Execute(&page, v)
	return map[string]string{
		"html": html.EscapeString(v), "template": page.String(), "XML": asXML.String(), "XML text": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(v),
		"Python": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(v),
		"twice":  url.QueryEscape(url.QueryEscape(v)), "login": "/login?next=" + url.QueryEscape("/ok?key="+percent(v)),
		"small": regexp.MustCompile(`%25..`).ReplaceAllStringFunc(url.QueryEscape(percent(v)), strings.ToLower),
	}
}

func TestRespelled(t *testing.T) {
	for _, v := range []string{value, `p&ss<w>'rd"9x+/=`, "a b&c'd/e+f=g%h`i"} {
		for name, s := range serverSpellings(v) {
			_, s, ok := strings.Cut(s, "key%3D")
			if !ok {
				s = serverSpellings(v)[name]
			}
			if s != v && s != url.QueryEscape(v) && !strings.Contains((rewritings{respelled(v), mark}).redact("<"+s+">"), "<"+mark+">") {
				t.Errorf("%s of %s is not known: %s", name, v, s)
			}
		}
	}
	if got := respelled("plain_value-0123"); len(got) > 0 {
		t.Errorf("what is always written as it is: %q", got)
	}
}

// Servers' spellings are taken out of the bodies and the headers of answers, in whatever pieces they come.
func TestRespelledAnswers(t *testing.T) {
	for name, s := range serverSpellings(value) {
		serve := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/"+s)
			for i := range s {
				w.Write([]byte(s[i : i+1]))
				http.NewResponseController(w).Flush()
			}
			w.Write([]byte(".." + s + s[:len(s)-1]))
		}
		g := newRig(t, setup{server: secureServer(t, true, serve), config: lease(nil).config(), secure: true})
		res, body := g.do(1, g.request("GET", "/", nil))
		if strings.Contains(body, s) || strings.Contains(res.Header.Get("Location"), s) || strings.Count(body, mark) < 2 || !strings.Contains(body, ".."+mark) && name != "login" {
			t.Errorf("%s: %q %q", name, res.Header, body)
		}
	}
}

func FuzzRespeller(f *testing.F) {
	f.Add("a&b<c", "x a&amp;b&lt;c y", uint8(3))
	f.Add("a&b<c", "a&amp;b&lta&amp;b&lt;c", uint8(1))
	f.Add("/+/+/", "%252F%252B%252F%252B%252F%252B%252F", uint8(2))
	f.Fuzz(func(t *testing.T, v, text string, piece uint8) {
		o := rewritings{respelled(v), ""}
		if v == "" || len(o.texts) == 0 {
			return
		}
		var out bytes.Buffer
		r := &respeller{rewritings: o, next: whole{&out}}
		for b := []byte(text); len(b) > 0; {
			n := min(len(b), int(piece)+1)
			r.Write(b[:n])
			b = b[n:]
		}
		r.Close()
		if whole := (rewritings{o.texts, "\xff\xfe"}); whole.redact(text) == text && out.String() != text {
			t.Errorf("%q became %q, without %q in it", text, out.String(), o.texts)
		}
		for _, s := range o.texts {
			if strings.Contains(text, s) && out.String() == text {
				t.Errorf("%q stays in %q", s, text)
			}
		}
	})
}
