package engine

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func stored(t testing.TB, name string) []byte {
	t.Helper()
	all, err := filepath.Glob("testdata/" + name + ".*")
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v %v", name, all, err)
	}
	b, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPages reads what is modelled on the engines' pages: the same two results, none, and a puzzle.
func TestPages(t *testing.T) {
	want := []Result{
		{"Landlock: unprivileged access control", "https://landlock.io/", "A security module by which any process can restrict itself."},
		{"Documentation of the kernel", "https://docs.kernel.org/userspace-api/landlock.html?a=1&b=2", "Rules, rulesets and layers."},
	}
	for _, name := range Names() {
		e, err := Find(name, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Read(stored(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, want (-), got (+):\n%s", name, err, diff)
		}
		if got, err := e.Read(stored(t, name+"_none")); err != nil || len(got) != 0 {
			t.Errorf("%s, none: %v %v", name, got, err)
		}
		if name == SearXNG {
			continue
		}
		if got, err := e.Read(stored(t, name+"_blocked")); !errors.Is(err, errBlocked) || got != nil {
			t.Errorf("%s, blocked: %v %v", name, got, err)
		}
	}
}

// TestChanged has markup that nobody knows: that is an error, and not an empty list.
func TestChanged(t *testing.T) {
	for _, name := range Names() {
		e, _ := Find(name, "")
		changed := strings.NewReplacer("result", "thing", "class=\"", "class=\"n", `"results"`, `"things"`).Replace(string(stored(t, name)))
		for _, body := range []string{changed, "", "<html></html>", "Just a moment...", "{}", "[]", "null", strings.Repeat("<div>", 2000)} {
			if got, err := e.Read([]byte(body)); !errors.Is(err, errUnknown) || got != nil {
				t.Errorf("%s: %.60q: %v %v", name, body, got, err)
			}
		}
	}
	e, _ := Find(SearXNG, "")
	if _, err := e.Read([]byte(`{"results": [], "unresponsive_engines": [["brave", "timeout"]]}`)); err == nil || !strings.Contains(err.Error(), "brave") {
		t.Errorf("%v", err)
	}
}

func TestAddresses(t *testing.T) {
	for name, want := range map[string]string{
		"duckduckgo": "https://html.duckduckgo.com/html/?q=a+%26b", "mojeek": "https://www.mojeek.com/search?q=a+%26b",
		"brave": "https://search.brave.com/search?q=a+%26b&source=web",
	} {
		e, _ := Find(name, "")
		if got := e.Address("a &b"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	e, err := Find(SearXNG, "https://searx.example.com/sub/")
	if got := e.Address("x"); got != "https://searx.example.com/sub/search?categories=general&format=json&q=x" || err != nil {
		t.Errorf("%s %v", got, err)
	}
	if _, err := Find("bing", ""); err == nil {
		t.Error("an engine that there is not")
	}
}

func TestBlocks(t *testing.T) {
	for _, tt := range []struct {
		status int
		at     string
		header http.Header
		want   string
	}{
		{200, "https://e.example/search", nil, ""}, {202, "https://e.example/", nil, "proof"}, {429, "https://e.example/", nil, "429"},
		{403, "https://e.example/", nil, "403"}, {503, "https://e.example/", nil, "503"}, {200, "https://e.example/showcaptcha?x", nil, "proof"},
		{200, "https://e.example/", http.Header{"X-Yandex-Captcha": {"captcha"}}, "proof"},
	} {
		u, _ := url.Parse(tt.at)
		if got := Blocks(tt.status, u, tt.header); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%d %s: %q", tt.status, tt.at, got)
		}
	}
}

func TestTarget(t *testing.T) {
	for link, want := range map[string]string{
		"https://a.example/x?utm_source=b&c=d&gclid=e#f":              "https://a.example/x?c=d",
		"//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F%3Fq%3D1": "https://a.example/?q=1",
		"/l/?uddg=http%3A%2F%2Fa.example":                             "http://a.example",
		"https://other.example/?uddg=https%3A%2F%2Fa.example":         "https://other.example/?uddg=https%3A%2F%2Fa.example",
		"javascript:alert(1)":                                         "", "/relative": "", "https://u:p@a.example/": "", "ftp://a.example": "", "https://": "", "%zz": "",
		"//duckduckgo.com/l/?uddg=%2F%2Fx": "",
	} {
		if got := target(link); got != want {
			t.Errorf("%s: got %q, want %q", link, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range Names() {
		f.Add(name, stored(f, name))
		f.Add(name, stored(f, name+"_none"))
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		e, err := Find(name, "")
		if err != nil {
			return
		}
		all, _ := e.Read(body)
		for _, r := range all {
			if target(r.URL) != r.URL || r.Title == "" || strings.ContainsAny(r.Title+r.Summary+r.URL, "\n\x1b") {
				t.Errorf("%+v", r)
			}
		}
	})
}
