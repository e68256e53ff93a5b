package engine

import (
	"errors"
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

// TestPages parses pages modelled on the engines' answers: the same two results, and none.
func TestPages(t *testing.T) {
	want := []Result{
		{"Landlock: unprivileged access control", "https://landlock.io/", "A security module by which any process can restrict itself."},
		{"Documentation of the kernel", "https://docs.kernel.org/userspace-api/landlock.html?a=1&b=2", "Rules, rulesets and layers."},
	}
	for _, name := range []string{SearXNG, Brave} {
		got, err := Read(name, stored(t, name))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, want (-), got (+):\n%s", name, err, diff)
		}
		if got, err := Read(name, stored(t, name+"_none")); err != nil || len(got) != 0 {
			t.Errorf("%s, none: %v %v", name, got, err)
		}
	}
}

// TestChanged has pages of an unknown form: that is an error, and not an empty list.
func TestChanged(t *testing.T) {
	for _, name := range []string{SearXNG, Brave} {
		changed := strings.NewReplacer(`"results"`, `"things"`, `"search"`, `"error"`).Replace(string(stored(t, name)))
		for _, body := range []string{changed, "", "<html></html>", "Just a moment...", "{}", "[]", "null", strings.Repeat("<div>", 2000)} {
			if got, err := Read(name, []byte(body)); !errors.Is(err, errUnknown) || got != nil {
				t.Errorf("%s: %.60q: %v %v", name, body, got, err)
			}
		}
	}
	if _, err := Read(SearXNG, []byte(`{"results": [], "unresponsive_engines": [["brave", "timeout"]]}`)); err == nil ||
		!strings.Contains(err.Error(), "brave") {
		t.Errorf("%v", err)
	}
}

func TestBlocks(t *testing.T) {
	for status, want := range map[int]string{200: "", 401: "refuses", 403: "403", 429: "429", 503: "503"} {
		if got := RefusalOf(status); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%d: %q", status, got)
		}
	}
}

func TestTarget(t *testing.T) {
	for link, want := range map[string]string{
		"https://a.example/x?utm_source=b&c=d&gclid=e#f": "https://a.example/x?c=d",
		"javascript:alert(1)":                            "", "/relative": "", "https://u:p@a.example/": "", "ftp://a.example": "",
		"https://": "", "%zz": "",
	} {
		if got := cleanLink(link); got != want {
			t.Errorf("%s: got %q, want %q", link, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{SearXNG, Brave} {
		f.Add(name, stored(f, name))
		f.Add(name, stored(f, name+"_none"))
	}
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		all, _ := Read(name, body)
		for _, r := range all {
			if cleanLink(r.URL) != r.URL || r.Title == "" || strings.ContainsAny(r.Title+r.Summary+r.URL, "\n\x1b") {
				t.Errorf("%+v", r)
			}
		}
	})
}
