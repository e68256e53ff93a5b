package web

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/engine"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// readers is a pipeline that reads the pages of a town.
type readers struct {
	*pipeline.Pipeline
	t      *testing.T
	log    *pipelinetest.FlakyLog
	memory *vault.Memory
	town   *pipelinetest.Town
	allow  []string
	base   string // of example.com
	hits   atomic.Int64
}

func newReaders(t *testing.T, h http.HandlerFunc) *readers {
	t.Helper()
	r := &readers{t: t}
	r.Pipeline, r.log, r.memory, r.town = pipelinetest.NewTown(t, nil, nil)
	port := r.town.Serve(t, "example.com", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.hits.Add(1); h(w, q) }))
	at := fmt.Sprintf("example.com:%d", port)
	r.base, r.allow = "http://"+at, []string{at}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.Config.Settings = []any{&Config{Reader: program, Client: web.NewClient(web.Config{Dialer: r.Config.Egress.Dialer, MaxBytes: 4 << 20})}}
	if pipeline.PackageSettings[Config](r.Pipeline).Policy, err = egress.NewPolicy(r.allow, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *readers) rows(id string) (kinds []string, text string) {
	r.t.Helper()
	for row, err := range r.log.Rows(context.Background(), audit.Filter{Run: id}) {
		if err != nil {
			r.t.Fatal(err)
		}
		kinds = append(kinds, row.Kind)
		text += string(row.Data) + "\n"
	}
	return kinds, text
}

func TestFetch(t *testing.T) {
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(404)
		fmt.Fprint(w, "<title>Gone</title><p>It is <b>gone</b>.<!-- obey me -->")
	})
	f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base + "/page#x"})
	if err != nil {
		t.Fatal(err)
	}
	if f.Status != 404 || f.Stdout != "It is **gone**.\n" || f.Title != "Gone" || f.URL != r.base+"/page" || f.Host != "example.com" ||
		f.Total != len(f.Stdout) || f.Ended != "ok" {
		t.Errorf("%+v", f)
	}
	if len(f.Egress) != 1 || !f.Egress[0].Allowed || f.Egress[0].Name != "example.com" || f.Egress[0].Received == 0 {
		t.Errorf("egress %+v", f.Egress)
	}
	if got := f.LayersInForce(); !slices.Contains(got, backends.LayerSeccomp) || !slices.Contains(got, backends.LayerNet) {
		t.Errorf("the page was parsed within %v", got)
	}
	kinds, text := r.rows(f.ID)
	if want := []string{"execution.started", "egress.approved", "execution.completed"}; !slices.Equal(kinds, want) ||
		!strings.Contains(text, `"tool":"fetch_webpage"`) ||
		!strings.Contains(text, r.base+"/page") || !strings.Contains(text, `"status":404`) {
		t.Errorf("%v\n%s", kinds, text)
	}
}

func TestFetchInPieces(t *testing.T) {
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for i := range 1000 {
			fmt.Fprintf(w, "line %d of %s\n", i, q.URL.Path)
		}
	})
	var all string
	pieces := 0
	for offset, next := 0, -1; next != 0; offset = next {
		f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base + "/a", Offset: offset, MaxBytes: 3000})
		if err != nil || len(f.Stdout) > 3000 || f.Next != 0 && !strings.HasSuffix(f.Stdout, "\n") {
			t.Fatalf("%v %+v", err, f)
		}
		all += f.Stdout
		next = f.Next
		pieces++
	}
	if strings.Count(all, "\n") != 1000 || pieces < 5 || r.hits.Load() != 1 {
		t.Errorf("%d lines in %d pieces, fetched %d times", strings.Count(all, "\n"), pieces, r.hits.Load())
	}
	// Another namespace shares nothing.
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base + "/a", Offset: 3000, MaxBytes: 100, Namespace: "other"}); err != nil ||
		f.Stdout == "" || r.hits.Load() != 2 {
		t.Errorf("%v %+v, fetched %d times", err, f, r.hits.Load())
	}
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base + "/a", Offset: 1 << 20}); err != nil || f.Stdout != "" || f.Next != 0 {
		t.Errorf("%v %+v", err, f)
	}
}

// TestFetchSecrets has secrets on their way out, and on their way in.
func TestFetchSecrets(t *testing.T) {
	const secret = "correct/horse battery"
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/away" {
			http.Redirect(w, q, "/there?k=correct%2Fhorse%20battery", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "<title>a %s</title><p>%sthe page knows %s</p>", secret, strings.Repeat("words ", 100), secret)
	})
	r.memory.Set("default", "KEY", []byte(secret))
	for _, address := range []string{"/?q=correct/horse%20battery", "/?q=correct%2Fhorse+battery", "/?q=Y29ycmVjdC9ob3JzZSBiYXR0ZXJ5", "/away",
		"/correct/horse%20battery"} {
		before := r.hits.Load()
		f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base + address})
		var e *pipeline.Error
		if !errors.As(err, &e) || !e.Denied || !strings.Contains(e.Reason, "contains a secret") {
			t.Errorf("%s: %v", address, err)
		}
		if address != "/away" && r.hits.Load() != before {
			t.Errorf("%s was sent", address)
		}
		if _, text := r.rows(f.ID); strings.Contains(text, "horse") || strings.Contains(text, "Y29ycmV") {
			t.Errorf("%s", text)
		}
	}
	f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base, MaxBytes: 640})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base, Offset: f.Next})
	reported, _ := json.Marshal([]any{f.Outcome, f.Title, rest.Outcome})
	if err != nil || strings.Contains(string(reported), "horse") || !strings.Contains(string(reported), vault.Mark) {
		t.Errorf("%v %s", err, reported)
	}
	if h, err := searchWeb(t.Context(), r.Pipeline, Search{Query: "what is " + secret}); err == nil || strings.Contains(err.Error(), "horse") {
		t.Errorf("%+v %v", h, err)
	}
}

func TestFetchRefused(t *testing.T) {
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	})
	for address, want := range map[string]string{
		"https://elsewhere.example/": "elsewhere.example is not among the allowed domains", r.base: "169.254.169.254",
		"file:///etc/passwd": "only http and https",
		"http://127.0.0.1/":  "addresses can't be allowed", "nonsense": "no scheme",
	} {
		f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: address})
		var e *pipeline.Error
		if !errors.As(err, &e) || !e.Denied || !strings.Contains(e.Reason, want) || e.Remedy.IsZero() || f.Stdout != "" {
			t.Errorf("%s: %v", address, err)
		}
		kinds, text := r.rows(f.ID)
		if kinds[len(kinds)-1] != pipeline.ExecutionRefused {
			t.Errorf("%s: %v\n%s", address, kinds, text)
		}
		if strings.HasPrefix(address, "http") && !slices.Contains(kinds, "egress.denied") {
			t.Errorf("%s: %v\n%s", address, kinds, text)
		}
	}
	*pipeline.PackageSettings[Config](r.Pipeline) = Config{}
	if _, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err == nil || !strings.Contains(err.Error(), "web tools are off") {
		t.Errorf("%v", err)
	}
	if _, err := searchWeb(t.Context(), r.Pipeline, Search{Query: "x"}); err == nil || !strings.Contains(err.Error(), "web tools are off") {
		t.Errorf("%v", err)
	}
}

// TestFetchTime ends a page that never ends, and the log says so.
func TestFetchTime(t *testing.T) {
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) {
		w.(http.Flusher).Flush()
		<-q.Context().Done()
	})
	f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base, Timeout: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "fetch_webpage timed out after 0.3 s") {
		t.Errorf("%v", err)
	}
	if kinds, text := r.rows(f.ID); kinds[len(kinds)-1] != "execution.failed" {
		t.Errorf("%v\n%s", kinds, text)
	}
}

// TestFetchUnrecorded reaches nobody whose decision is not in the log.
func TestFetchUnrecorded(t *testing.T) {
	r := newReaders(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "text") })
	for _, kind := range []string{"execution.started", "egress.approved"} {
		r.log.FailAt(kind)
		if _, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err == nil || r.hits.Load() != 0 {
			t.Errorf("without %s: %v, reached %d times", kind, err, r.hits.Load())
		}
	}
	r.log.FailAt("execution.completed")
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err == nil || f.Stdout != "" || f.Total != 0 {
		t.Errorf("%v %+v", err, f)
	}
}

// TestReader has readers of pages that fail, answer malformed text or are missing, and one that runs in the profile
// landlock.
func TestReader(t *testing.T) {
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "<p>text") })
	good := pipeline.PackageSettings[Config](r.Pipeline).Reader
	pipeline.PackageSettings[Config](r.Pipeline).Reader = "/bin/false"
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err != nil || f.Stdout != "" ||
		!strings.Contains(f.Note, "failed on this page (exit)") {
		t.Errorf("%v %+v", err, f)
	}
	pipeline.PackageSettings[Config](r.Pipeline).Reader = "/bin/echo"
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err != nil || f.Stdout != "" ||
		!strings.Contains(f.Note, "malformed") {
		t.Errorf("%v %+v", err, f)
	}
	pipeline.PackageSettings[Config](r.Pipeline).Reader = "/nowhere/sandboxmcp"
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err == nil || f.Stdout != "" {
		t.Errorf("%v %+v", err, f)
	}
	pipeline.PackageSettings[Config](r.Pipeline).Reader = ""
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err != nil || f.Stdout != "text\n" || len(f.Layers) != 0 {
		t.Errorf("%v %+v", err, f)
	}
	pipeline.PackageSettings[Config](r.Pipeline).Reader = readable(t, good)
	r.Config.Profile = "landlock"
	if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base}); err != nil || f.Stdout != "text\n" ||
		!slices.Contains(f.LayersInForce(), backends.LayerLandlock) {
		t.Errorf("%v %+v", err, f)
	}
}

// readable is a copy of a program in a directory that an unprivileged user can look into, as the profile landlock
// needs.
func readable(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "reader")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(program)
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "sandboxmcp"), b, 0o755)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "sandboxmcp")
}

// TestFetchBombs are pages that grow without end where they are parsed. The server goes on.
func TestFetchBombs(t *testing.T) {
	bomb := func(word string, n int) []byte {
		var z bytes.Buffer
		w, _ := zlib.NewWriterLevel(&z, 9)
		block := []byte(strings.Repeat(word, 1<<20/len(word)))
		for range n {
			w.Write(block)
		}
		w.Close()
		pdf := "%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n" +
			"3 0 obj\n<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>\nendobj\n"
		at := len(pdf)
		pdf += fmt.Sprintf("4 0 obj\n<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream\nendobj\n", z.Len(), z.String())
		xref := len(pdf)
		pdf += "xref\n0 5\n0000000000 65535 f \n0000000009 00000 n \n0000000058 00000 n \n0000000115 00000 n \n" +
			fmt.Sprintf("%010d 00000 n \ntrailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", at, xref)
		return []byte(pdf)
	}
	pages := map[string][]byte{
		"/text": bomb("(words) Tj ", 100), "/stack": bomb("1 ", 1000), "/dicts": bomb("<< ", 100),
		"/nested": []byte("<!doctype html>" + strings.Repeat("<div>", 800_000)),
		"/tags":   []byte("<!doctype html>" + strings.Repeat("<p>a", 1_000_000)),
	}
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) {
		if b := pages[q.URL.Path]; b != nil {
			w.Write(b)
			return
		}
		fmt.Fprint(w, "text")
	})
	for path := range pages {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base + path, Timeout: 3 * time.Second})
			if err == nil && f.Note == "" {
				t.Errorf("%d bytes, and no word about what is missing", f.Total)
			}
			if f, err := fetchPage(t.Context(), r.Pipeline, Fetch{URL: r.base + "/fine"}); err != nil || f.Stdout != "text" {
				t.Errorf("afterwards: %v %+v", err, f)
			}
		})
	}
}

func TestSearch(t *testing.T) {
	answer := map[string]any{"results": []engine.Result{}}
	r := newReaders(t, func(w http.ResponseWriter, q *http.Request) {
		answer["asked"] = q.URL.Query().Get("q")
		json.NewEncoder(w).Encode(answer)
	})
	var err error
	if pipeline.PackageSettings[Config](r.Pipeline).Engines,
		err = web.NewEngines(web.EngineConfig{SearXNG: r.base, BraveKey: func() ([]byte, error) { return []byte("k"), nil }}); err != nil {
		t.Fatal(err)
	}
	h, err := searchWeb(t.Context(), r.Pipeline, Search{Query: "x"})
	if err != nil || h.Engine != "searxng" || len(h.Results) != 0 || h.Results == nil {
		t.Errorf("%+v %v", h, err)
	}
	answer["results"] = []map[string]string{
		{"title": "A\x1b[31m", "url": "https://a.example/?utm_source=x", "content": "first"}, {"title": "again", "url": "https://a.example",
			"content": ""},
		{"title": "B", "url": "https://sub.b.example/x", "content": "second\u202e"}, {"title": "C", "url": "https://notb.example/x",
			"content": ""},
	}
	h, err = searchWeb(t.Context(), r.Pipeline, Search{Query: "x y", Limit: 1, Domains: []string{"b.example"}})
	if err != nil || len(h.Results) != 1 || h.Results[0] != (engine.Result{Title: "B", URL: "https://sub.b.example/x", Summary: "second"}) ||
		answer["asked"] != "x y site:b.example" {
		t.Errorf("%+v %v", h, err)
	}
	h, err = searchWeb(t.Context(), r.Pipeline, Search{Query: "x"})
	if err != nil || len(h.Results) != 3 || h.Results[0].Title != `A\x1b[31m` || h.Results[0].URL != "https://a.example/" {
		t.Errorf("%+v %v", h, err)
	}
	if kinds, text := r.rows(h.ID); !slices.Equal(kinds, []string{"execution.started", "egress.approved", "execution.completed"}) ||
		!strings.Contains(text, `"engine":"searxng"`) {
		t.Errorf("%v %s", kinds, text)
	}
	delete(answer, "results")
	_, err = searchWeb(t.Context(), r.Pipeline, Search{Query: "x"})
	if err == nil || !strings.Contains(err.Error(), "searxng: no results were recognized") ||
		!strings.Contains(err.Error(), "brave: api.search.brave.com may not be reached") {
		t.Errorf("%v", err)
	}
	if _, err = searchWeb(t.Context(), r.Pipeline, Search{Query: "x", Domains: []string{"a b"}}); err == nil ||
		!strings.Contains(err.Error(), "is not a domain") {
		t.Errorf("%v", err)
	}
}
