package reader

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
)

func TestServe(t *testing.T) {
	q := Question{URL: "https://a.example/", Type: "text/html", Body: []byte("<title>t</title>\n<p>text")}
	b, err := q.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := Serve(bytes.NewReader(b), &out); code != 0 {
		t.Fatal(code)
	}
	a, err := Parse(out.Bytes())
	if err != nil || a.Page.Text != "text\n" || a.Page.Title != "t" {
		t.Errorf("%+v %v", a, err)
	}
	a = Read(Question{Engine: "brave", Body: []byte("<p>new design")})
	if !strings.Contains(a.Error, "no results were recognized") {
		t.Errorf("%+v", a)
	}
	if a = Read(Question{Engine: "bing"}); a.Error == "" {
		t.Errorf("%+v", a)
	}
	for _, bad := range []string{"", "{}", "no JSON\n", "[]\n"} {
		if code := Serve(strings.NewReader(bad), &out); code == 0 {
			t.Errorf("%q is a question", bad)
		}
	}
}

// TestParse has a reader under a page's control.
func TestParse(t *testing.T) {
	evil := "a\x1b[2J\u202e\n\nb"
	b, err := json.Marshal(map[string]any{
		"page":    page.Page{Type: evil, Title: evil, Canonical: evil, Note: evil, Text: evil},
		"results": []map[string]string{{"title": evil, "url": evil, "summary": evil}}, "error": evil,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := json.Marshal(a)
	if strings.ContainsAny(string(all), "\x1b\u202e") || strings.Contains(string(all), `\u001b`) ||
		strings.Contains(a.Page.Title+a.Results[0].Title+a.Error, "\n") {
		t.Errorf("%s", all)
	}
	for _, bad := range []string{"", "[]", `{"page":`, `{"page":1}`, strings.Repeat("a", MaxAnswer+1)} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%.20q is an answer", bad)
		}
	}
}
