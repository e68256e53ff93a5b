package web

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"image/png"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
)

// page serves one at web.test and returns its address.
func onePage(w *pipelinetest.Town, t testing.TB, p *pipeline.Pipeline, body string) string {
	t.Helper()
	web := fmt.Sprintf("web.test:%d", w.Serve(t, "web.test", html(body)))
	may(p, t, web)
	return "http://" + web + "/"
}

// browse fetches a page; a page that can't be fetched ends the test.
func browse(t testing.TB, p *pipeline.Pipeline, q Browse) browsedResult {
	t.Helper()
	got, err := browsePage(t.Context(), p, q)
	if err != nil {
		t.Fatalf("%s: %v", q.URL, err)
	}
	return got
}

// hurried gives a page that never ends little time, and more only if the page has not shown its first text by then.
func hurried(t testing.TB, p *pipeline.Pipeline, q Browse, shows string) (browsedResult, error) {
	for q.Timeout = 4 * time.Second; ; q.Timeout *= 2 {
		got, err := browsePage(t.Context(), p, q)
		if strings.Contains(got.Stdout, shows) || q.Timeout > 2*time.Minute {
			return got, err
		}
	}
}

func TestBrowseWaitsFor(t *testing.T) {
	t.Parallel()
	p, _, _, w := newPages(t, nil)
	at := onePage(w, t, p, `<title>Slow</title><p>early</p><script>setTimeout(() => {
		const e = document.createElement("p"); e.className = "content"; e.textContent = "came late"; document.body.append(e)}, 300)</script>`)
	if got := browse(t, p, Browse{URL: at, WaitFor: "p.content"}); !strings.Contains(got.Stdout, "came late") || got.Late != "" ||
		got.Ended != "ok" {
		t.Errorf("got %q, late %q, %s", got.Stdout, got.Late, got.Ended)
	}
	got, err := hurried(t, p, Browse{URL: at, WaitFor: "#never"}, "came late")
	if err != nil || !strings.Contains(got.Stdout, "came late") || !strings.Contains(got.Late, "#never within ") ||
		got.Ended != backends.EndedTimeout {
		t.Errorf("got %q, late %q, %s, %v", got.Stdout, got.Late, got.Ended, err)
	}
	if _, err := browsePage(t.Context(), p, Browse{URL: at, WaitFor: "p["}); err == nil || !strings.Contains(err.Error(), "CSS selector") {
		t.Errorf("no selector: %v", err)
	}
}

// A part of the page that is denied does not load, and is listed; so are those that lead inwards.
func TestBrowseParts(t *testing.T) {
	t.Parallel()
	p, log, _, w := newPages(t, nil)
	var reached sync.Map
	note := func(name string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			reached.Store(name, true)
			rw.Header().Set("Access-Control-Allow-Origin", "*")
			fmt.Fprint(rw, "reached "+name)
		})
	}
	ok, evil := w.Serve(t, "ok.test", note("ok")), w.Serve(t, "evil.test", note("evil"))
	local := w.Serve(t, "web.test", note("loopback"))
	body := fmt.Sprintf(`<pre id=log></pre><script>
async function tell(url) {
  let how;
  try { how = await (await fetch(url)).text() } catch (e) { how = "failed" }
  document.getElementById("log").textContent += url + " " + how + "\n";
}
(async () => {
  for (const url of ["http://ok.test:%[1]d/", "http://evil.test:%[2]d/", "http://169.254.169.254/latest/meta-data", "http://127.0.0.9:%[3]d/",
    "http://127.0.0.1:%[3]d/", "http://[::1]:%[3]d/", "http://localhost:%[3]d/", "http://inside.test:%[3]d/", "file:///etc/passwd", "http://0.0.0.0:%[3]d/"]) await tell(url);
  document.body.append(Object.assign(document.createElement("i"), {id: "done"}));
})()</script>`, ok, evil, local)
	port := w.Serve(t, "web.test", html(body))
	w.Mu.Lock()
	w.Names["inside.test"] = netip.MustParseAddr("10.1.2.3")
	w.Mu.Unlock()
	may(p, t, fmt.Sprintf("web.test:%d", port), fmt.Sprintf("ok.test:%d", ok), fmt.Sprintf("inside.test:%d", local))
	got := browse(t, p, Browse{URL: fmt.Sprintf("http://web.test:%d/", port), WaitFor: "#done", Format: "text"})
	lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
	if len(lines) != 10 || !strings.HasSuffix(lines[0], "reached ok") {
		t.Fatalf("got %q", got.Stdout)
	}
	for _, line := range lines[1:] {
		if !strings.HasSuffix(line, " failed") {
			t.Errorf("it came through: %s", line)
		}
	}
	for _, name := range []string{"evil", "loopback"} {
		if _, ok := reached.Load(name); ok {
			t.Errorf("%s was reached", name)
		}
	}
	for name, why := range map[string]string{"evil.test": "not among the allowed", "inside.test": "10.1.2.3",
		"127.0.0.0/8": "belongs to no name"} {
		if !slices.ContainsFunc(got.Egress, func(d egress.Record) bool {
			return d.Name == name && !d.Allowed &&
				strings.Contains(d.Reason, why)
		}) {
			t.Errorf("%s is not listed as denied: %+v", name, got.Egress)
		}
	}
	all := pipelinetest.Kinds(t, log)
	if all[0] != event.ExecutionStarted || !slices.Contains(all, event.EgressDenied) || all[len(all)-1] != event.ExecutionCompleted {
		t.Errorf("rows %v", all)
	}
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err == nil && row.Kind == event.ExecutionCompleted && (!strings.Contains(string(row.Data), "seccomp") ||
			!strings.Contains(string(row.Data), "evil.test")) {
			t.Errorf("%s", row.Data)
		}
	}
}

func TestBrowseRefuses(t *testing.T) {
	p, log, memory, w := newPages(t, nil)
	at := onePage(w, t, p, "hello")
	secret := "kq7" + "Zr41xWv" + "99Lmn2"
	if err := memory.Set("default", "TOKEN", []byte(secret)); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"file:///etc/passwd":              "",
		"view-source:" + at:               "",
		"chrome://version":                "",
		"data:text/html,x":                "",
		"javascript:alert(1)":             "",
		"about:blank":                     "",
		"http:///x":                       "",
		"http://user:pass@web.test/":      "user name",
		"http://127.0.0.1/":               "may not be read",
		"http://[::1]/":                   "may not be read",
		"http://evil.test/":               "may not be read",
		at + "?q=" + secret:               "secret",
		at + "?q=%6bq7" + secret[3:]:      "secret",
		strings.Replace(at, ":", "x:", 1): "",
	} {
		_, err := browsePage(t.Context(), p, Browse{URL: url})
		var e *pipeline.Error
		if !errors.As(err, &e) || !e.Denied || !strings.Contains(e.Reason, want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for row := range log.Rows(t.Context(), audit.Filter{}) {
		if row.Kind != pipeline.ExecutionRefused && row.Kind != event.EgressDenied || strings.Contains(string(row.Data), secret) {
			t.Errorf("%s %s", row.Kind, row.Data)
		}
	}
}

// A host that is not reached has answered nothing, though the gateway tells the browser why.
func TestBrowseUnreached(t *testing.T) {
	t.Parallel()
	p, _, _, w := newPages(t, nil)
	w.Mu.Lock()
	w.Names["inside.test"], w.Names["closed.test"] = netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("127.0.0.9")
	w.Mu.Unlock()
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	closed := fmt.Sprintf("closed.test:%d", l.Addr().(*net.TCPAddr).Port)
	may(p, t, "inside.test:80", closed)
	for url, want := range map[string]string{"http://inside.test/": "inside.test is at 10.1.2.3", "http://" + closed + "/": "refused"} {
		if got, err := browsePage(t.Context(), p, Browse{URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %+v", url, err, got)
		}
	}
}

// Redirects are connections like any other.
func TestBrowseRedirects(t *testing.T) {
	t.Parallel()
	p, _, _, w := newPages(t, nil)
	evil := w.Serve(t, "evil.test", html("evil"))
	to := ""
	port := w.Serve(t, "web.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			fmt.Fprint(rw, "arrived")
			return
		}
		http.Redirect(rw, r, to, http.StatusFound)
	}))
	web := fmt.Sprintf("http://web.test:%d", port)
	may(p, t, web[len("http://"):])
	to = web + "/end"
	if got := browse(t, p, Browse{URL: web}); got.URL != to || !strings.Contains(got.Stdout, "arrived") || got.Status != 200 {
		t.Errorf("got %+v", got)
	}
	for _, tt := range [][2]string{{fmt.Sprintf("http://evil.test:%d/", evil), "evil.test: evil.test is not among"},
		{"file:///etc/passwd", "UNSAFE_REDIRECT"}, {"http://169.254.169.254/", "ERR_"}} {
		to = tt[0]
		if _, err := browsePage(t.Context(), p, Browse{URL: web}); err == nil || !strings.Contains(err.Error(), tt[1]) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// Hostile pages end as results, or as errors that name the cause.
func TestBrowseHostile(t *testing.T) {
	p, _, _, w := newPages(t, nil)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	wait := func(r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	mux := http.NewServeMux()
	for path, body := range map[string]string{
		"/alert":    `<p>before</p><script>for (;;) alert("hello " + Math.random())</script>`,
		"/loop":     `<p>before</p><script>setTimeout(() => { for (;;); }, 50)</script>`,
		"/pending":  `<p>before</p><img src="/hang">`,
		"/popups":   `<p>before</p><script>for (let i = 0; i < 50; i++) window.open("/popup?" + i); setInterval(() => window.open("/popup"), 20)</script>`,
		"/title":    "<title>a\u001b]0;owned\u0007\u001b[2J\u202eb\u0000</title>text",
		"/huge":     `<p>start</p><script>let s = "some words ".repeat(100000); for (let i = 0; i < 12; i++) document.body.append(Object.assign(document.createElement("p"), {textContent: s}))</script>`,
		"/override": `<p>honest</p><script>document.querySelector = () => { throw 1 }; Object.defineProperty(document, "title", {get() { for (;;); }}); String.prototype.slice = () => "forged"</script>`,
		"/shadow":   `<div id=h></div><script>document.getElementById("h").attachShadow({mode: "open"}).innerHTML = "<p>in the shade</p>"</script>`,
		"/named":    `<title>honest</title><p>words</p><form><input name=shadowRoot><input name=innerText></form>`,
		"/unload":   `<p>stay</p><script>onbeforeunload = () => "no"; setInterval(() => location = "/unload?" + Math.random(), 300)</script>`,
	} {
		mux.Handle(path, html(body))
	}
	mux.HandleFunc("/hang", func(rw http.ResponseWriter, r *http.Request) { wait(r) })
	mux.HandleFunc("/popup", func(rw http.ResponseWriter, r *http.Request) { t.Error("a popup was loaded") })
	mux.HandleFunc("/file", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Disposition", "attachment; filename=x.bin")
		rw.Write(make([]byte, 1000))
	})
	mux.HandleFunc("/endless", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		for i := 0; r.Context().Err() == nil; i++ {
			fmt.Fprintf(rw, "<p>part %d</p>\n", i)
			rw.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond) // the page has not too many
		}
	})
	port := w.Serve(t, "web.test", mux)
	may(p, t, fmt.Sprintf("web.test:%d", port))
	for path, check := range map[string]func(t *testing.T, got browsedResult, err error){
		"/alert": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "before") || got.Late == "" ||
				!strings.Contains(fmt.Sprint(got.Notes), "dialogs were dismissed") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/loop": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "before") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/pending": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "before") || !strings.Contains(got.Late, "finished loading") || got.Picture == nil {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/endless": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "part 2") || !strings.Contains(got.Late, "finished loading") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/hang": func(t *testing.T, got browsedResult, err error) {
			if err == nil || !strings.Contains(err.Error(), "timed out after 4 s: the server did not answer") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/popups": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "before") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/title": func(t *testing.T, got browsedResult, err error) {
			if err != nil || strings.ContainsAny(got.Title, "\x00") || !strings.Contains(got.Title, "owned") {
				t.Errorf("%v %q", err, got.Title)
			}
		},
		"/huge": func(t *testing.T, got browsedResult, err error) {
			if err != nil || len(got.Stdout) > 50_000 || !strings.Contains(fmt.Sprint(got.Notes), "larger than") {
				t.Errorf("%v %d %v", err, len(got.Stdout), got.Notes)
			}
		},
		"/override": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "honest") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/named": func(t *testing.T, got browsedResult, err error) {
			if err != nil || got.Title != "honest" || !strings.Contains(got.Stdout, "words") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/shadow": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "in the shade") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/unload": func(t *testing.T, got browsedResult, err error) {
			if err != nil || !strings.Contains(got.Stdout, "stay") {
				t.Errorf("%v %+v", err, got)
			}
		},
		"/file": func(t *testing.T, got browsedResult, err error) {
			if err == nil || !strings.Contains(err.Error(), "download") {
				t.Errorf("%v %+v", err, got)
			}
		},
	} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			q := Browse{URL: fmt.Sprintf("http://web.test:%d%s", port, path), Timeout: 2 * time.Minute, Screenshot: path == "/pending" ||
				path == "/alert", MaxBytes: 50_000}
			endless := map[string]string{"/alert": "before", "/loop": "before", "/pending": "before", "/endless": "part 2", "/hang": ""}
			if shows, ok := endless[path]; ok {
				got, err := hurried(t, p, q, shows)
				check(t, got, err)
				return
			}
			got, err := browsePage(t.Context(), p, q)
			check(t, got, err)
		})
	}
}

func TestBrowseMemory(t *testing.T) {
	t.Parallel()
	p, _, _, w := newPages(t, nil)
	at := onePage(w, t, p, `<p>before</p><script>const all = []; setInterval(() => { for (let i = 0; i < 20; i++) all.push(new Uint8Array(4 << 20).fill(1)) }, 10)</script>`)
	got, err := browsePage(t.Context(), p, Browse{URL: at, WaitFor: "#never", Timeout: time.Minute})
	if err == nil {
		t.Fatalf("got %+v", got)
	}
	if !strings.Contains(err.Error(), "memory") {
		t.Errorf("%v", err)
	}
}

// Secrets in redirects and pages are redacted, and no picture shows one.
func TestBrowseRedacts(t *testing.T) {
	t.Parallel()
	p, log, memory, w := newPages(t, nil)
	secret := "kq7" + "Zr41xWv" + "99Lmn2"
	if err := memory.Set("default", "TOKEN", []byte(secret)); err != nil {
		t.Fatal(err)
	}
	at := onePage(w, t, p, `<title>`+secret+`</title><p>the token is `+secret[:6]+`<b>`+secret[6:]+`</b>.</p>`)
	for _, format := range []string{"text", "markdown", "html"} {
		got := browse(t, p, Browse{URL: at, Screenshot: true, Format: format})
		reported := fmt.Sprintf("%+v", got)
		if strings.Contains(reported, secret) || got.Picture != nil || !strings.Contains(fmt.Sprint(got.Notes), "withheld") {
			t.Errorf("%s: %s", format, reported)
		}
		if strings.Contains(got.Stdout, secret[6:]) || !strings.Contains(got.Stdout, "the token is") {
			t.Errorf("%s: %s", format, got.Stdout)
		}
	}
	for row := range log.Rows(t.Context(), audit.Filter{}) {
		if strings.Contains(string(row.Data), secret) {
			t.Errorf("%s", row.Data)
		}
	}
}

func TestBrowseLongPage(t *testing.T) {
	t.Parallel()
	p, _, _, w := newPages(t, nil)
	at := onePage(w, t, p, `<!doctype html><style>body{margin:0}div{height:1000px}</style><div style="background:#f00"></div><div style="background:#0f0"></div><div style="background:#00f;height:9000px"></div>`)
	got := browse(t, p, Browse{URL: at, Screenshot: true})
	img, err := png.Decode(bytes.NewReader(got.Picture))
	if err != nil {
		t.Fatal(err, got.Notes)
	}
	if b := img.Bounds(); b.Dx() != browser.Width || b.Dy() != browser.MaxHeight ||
		!strings.Contains(fmt.Sprint(got.Notes), "first 4000 pixels of 11000") {
		t.Errorf("%v %v", b, got.Notes)
	}
	if r, g, _, _ := img.At(600, 1500).RGBA(); r != 0 || g>>8 != 0xff {
		t.Errorf("%x %x", r, g)
	}
}

func TestBrowseTwice(t *testing.T) {
	t.Parallel()
	p, _, _, w := newPages(t, func(c *pipeline.Config) { c.Queue = pipeline.NewQueue(2, 10) })
	at := onePage(w, t, p, `<p>both</p><script>document.body.append(document.cookie + "|" + localStorage.length); document.cookie = "a=b"; localStorage.a = 1</script>`)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			got, err := browsePage(t.Context(), p, Browse{URL: at})
			if err != nil || !strings.Contains(got.Stdout, "both") || !strings.Contains(got.Stdout, "|0") {
				t.Errorf("%v %+v", err, got)
			}
		})
	}
	both.Wait()
	if got := browse(t, p, Browse{URL: at, Format: "text"}); !strings.Contains(got.Stdout, "|0") {
		t.Errorf("something was kept: %q", got.Stdout)
	}
}

func TestBrowseCapped(t *testing.T) {
	p, _, _, w := newPages(t, func(c *pipeline.Config) { c.Caps = pipeline.Bounds{Limits: backends.Limits{RAM: 100 << 20}} })
	at := onePage(w, t, p, "hello")
	if _, err := browsePage(t.Context(), p, Browse{URL: at}); err == nil || !strings.Contains(err.Error(), "caps.ram_mb") {
		t.Errorf("%v", err)
	}
	p, _, _, w = newPages(t, func(c *pipeline.Config) { c.Profile = "landlock" })
	at = onePage(w, t, p, "hello")
	if _, err := browsePage(t.Context(), p, Browse{URL: at}); err == nil || !strings.Contains(err.Error(), "landlock has no network") {
		t.Errorf("%v", err)
	}
	p, _, _, w = newPages(t, func(c *pipeline.Config) { pipeline.EnsureSettings[Config](c).Client = nil })
	at = onePage(w, t, p, "hello")
	if _, err := browsePage(t.Context(), p, Browse{URL: at}); err == nil || !strings.Contains(err.Error(), "web tools are off") {
		t.Errorf("%v", err)
	}
}

// TLS goes through the gateway as it is: the browser's error about an untrusted certificate is about the server's own.
// A page of an authority that was added to this machine is shown.
func TestBrowseTLS(t *testing.T) {
	t.Parallel()
	p, _, _, w := newPages(t, nil)
	authority := tlstest.New(t, "town")
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: html("hello"), ErrorLog: log.New(io.Discard, "", 0)},
		TLS: &tls.Config{Certificates: []tls.Certificate{authority.Sign(x509.Certificate{DNSNames: []string{"web.test"}})}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	w.Mu.Lock()
	w.Names["web.test"] = netip.MustParseAddr("127.0.0.9")
	w.Names["other.test"] = netip.MustParseAddr("127.0.0.9")
	w.Mu.Unlock()
	port := l.Addr().(*net.TCPAddr).Port
	web := fmt.Sprintf("web.test:%d", port)
	may(p, t, web, fmt.Sprintf("other.test:%d", port))
	res, err := browsePage(t.Context(), p, Browse{URL: "https://" + web + "/"})
	if err == nil || !strings.Contains(err.Error(), "ERR_CERT_AUTHORITY_INVALID") || !strings.Contains(err.Error(), "SSL_CERT_FILE") {
		t.Errorf("%v", err)
	}
	if len(res.Egress) == 0 || !res.Egress[0].Allowed || res.Egress[0].Received < 500 {
		t.Errorf("%+v", res.Egress)
	}
	pipeline.PackageSettings[Config](p).Authorities = func() [][]byte { return [][]byte{authority.Cert.Raw} }
	if got := browse(t, p, Browse{URL: "https://" + web + "/"}); !strings.Contains(got.Stdout, "hello") {
		t.Errorf("%+v", got)
	}
	if _, err := browsePage(t.Context(), p, Browse{URL: fmt.Sprintf("https://other.test:%d/", port)}); err == nil ||
		!strings.Contains(err.Error(), "ERR_CERT_COMMON_NAME_INVALID") {
		t.Errorf("another name: %v", err)
	}
}
