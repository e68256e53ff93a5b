package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// proxyPort is the port of the proxy on the loopback of the sandbox.
const proxyPort = 3128

// proxy is the only way out of an install: a HTTP proxy that fetches from the configured sources and from the links of
// their pages, and nothing else.
//
// It makes no tunnels. The requests in a tunnel are hidden, and a package's script could publish its findings to the
// registry, or talk to any other site at the address. So package managers are told that registries speak plain http:
// they ask here in the clear, and the proxy asks outside as the operator configured it. Downloads are checked against
// the hashes that came the same way, over the encrypted part.
type proxy struct {
	set      settings
	links    *links
	counters *hostCounters
	upstream *upstream
	fetched  func(file, host string) // of each file; may be nil
	left     atomic.Int64            // bytes that may still come in

	mu       sync.Mutex
	closed   bool
	busy     sync.WaitGroup
	troubles []string // why registries could not be reached, which pip would keep to itself
}

// trouble records a failure, up to 5 different ones, and returns it without secrets.
func (g *proxy) trouble(text string) string {
	const limit = 5
	text = g.set.redact(text)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.troubles) < limit && !slices.Contains(g.troubles, text) {
		g.troubles = append(g.troubles, text)
	}
	return text
}

// troubled returns the recorded failures.
func (g *proxy) troubled() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.troubles)
}

// newProxy returns a proxy to the sources of set, through which at most max bytes come in. fetched may be nil.
func newProxy(set settings, max int64, fetched func(file, host string)) *proxy {
	g := &proxy{set: set, links: newLinks(set.sources), counters: &hostCounters{hosts: map[egress.Decision]*counts{}}, fetched: fetched}
	g.upstream = newUpstream(set, g.counters)
	g.left.Store(max)
	return g
}

// serve answers on the listener until the returned function is called, which ends all requests.
func (g *proxy) serve(ctx context.Context, l net.Listener) func() {
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{Handler: g, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return ctx }}
	var done sync.WaitGroup
	done.Go(func() { server.Serve(l) })
	return sync.OnceFunc(func() {
		cancel()
		server.Close() // which does not wait for its handlers
		done.Wait()
		g.mu.Lock()
		g.closed = true
		g.mu.Unlock()
		g.busy.Wait()
		g.upstream.close()
	})
}

// enter reports whether a request may still begin, and then counts it in busy.
func (g *proxy) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.busy.Add(1)
	}
	return !g.closed
}

// ServeHTTP implements [http.Handler].
func (g *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		http.Error(w, "sandboxmcp: the install has ended", http.StatusServiceUnavailable)
		return
	}
	defer g.busy.Done()
	switch {
	case r.Method == http.MethodConnect:
		g.refuse(w, r.Host, "443", "tunnels are not made: only what registries serve and link to can be fetched, by GET through this proxy")
		return
	case !r.URL.IsAbs() || r.URL.Host == "":
		http.Error(w, "sandboxmcp: this is a proxy, and the request names no host", http.StatusBadRequest)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		g.refuse(w, r.URL.Host, portOf(r.URL), "an install only fetches: "+shorten(r.Method)+" is not allowed")
		return
	}
	to, why, page := g.links.find(r.URL)
	if to == nil {
		g.refuse(w, r.URL.Host, portOf(r.URL), "no registry that the package manager is configured for is there, and none links to it")
		return
	}
	g.fetch(w, r, to, why, page)
}

// refuse answers 403 with the reason, and counts it.
func (g *proxy) refuse(w http.ResponseWriter, host, port, why string) {
	u := url.URL{Host: host}
	if u.Port() != "" {
		port = u.Port()
	}
	n, _ := strconv.Atoi(port)
	g.counters.count(u.Hostname(), n, false, why)
	http.Error(w, "sandboxmcp: "+u.Hostname()+" is refused: "+why, http.StatusForbidden)
}

// passedOut are the headers of a request that are sent to the registry, passedBack those of the answer that are returned.
var (
	passedOut  = []string{"Accept", "User-Agent", "Range"}
	passedBack = []string{"Content-Type", "Content-Range", "Accept-Ranges", "Last-Modified", "X-PyPI-Last-Serial"}
)

// fetch sends a request to the registry, and returns its answer.
func (g *proxy) fetch(w http.ResponseWriter, r *http.Request, to *url.URL, why string, page bool) {
	ctx := context.WithValue(r.Context(), reason{}, why)
	out, err := http.NewRequestWithContext(ctx, r.Method, to.String(), nil)
	if err != nil {
		http.Error(w, "sandboxmcp: "+g.set.redact(err.Error()), http.StatusBadRequest)
		return
	}
	for _, name := range passedOut {
		if v := r.Header.Get(name); v != "" {
			out.Header.Set(name, v)
		}
	}
	if !page {
		// A file is wanted as it is: its hash is of that.
		out.Header.Set("Accept-Encoding", "identity")
	}
	client := http.Client{Transport: g.upstream, CheckRedirect: redirects}
	answer, err := client.Do(out)
	if err != nil {
		g.fail(w, to, err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 400 && answer.StatusCode != http.StatusNotFound {
		g.trouble(answer.Request.URL.Host + " answered " + answer.Status)
	}
	for _, name := range passedBack {
		if v := answer.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	if page && paged(answer) && r.Method == http.MethodGet {
		g.pass(w, answer)
		return
	}
	if answer.ContentLength >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(answer.ContentLength, 10))
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, g.bounded(answer.Body)); err != nil {
		panic(http.ErrAbortHandler) // so that the file does not look whole
	}
	if g.fetched != nil && r.Method == http.MethodGet && answer.StatusCode == http.StatusOK {
		g.fetched(path.Base(to.Path), to.Host)
	}
}

// pass returns a page with its links rewritten.
func (g *proxy) pass(w http.ResponseWriter, answer *http.Response) {
	b, err := io.ReadAll(io.LimitReader(g.bounded(answer.Body), maxPage))
	if err == nil && len(b) == maxPage {
		err = errors.New("the page is too large")
	}
	if err == nil {
		b, err = g.rewrite(answer.Request.URL, answer.Header.Get("Content-Type"), b)
	}
	if err != nil {
		g.fail(w, answer.Request.URL, err)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Write(b)
}

// fail answers 502, or 403 for a forbidden address, with the error but not the URL, which may hold secrets.
func (g *proxy) fail(w http.ResponseWriter, to *url.URL, err error) {
	if inner, is := errors.AsType[*url.Error](err); is {
		err = inner.Err // the outer one quotes the whole URL
	}
	status := http.StatusBadGateway
	if errors.As(err, new(wrongAddress)) {
		status = http.StatusForbidden
	}
	http.Error(w, "sandboxmcp: "+g.trouble(fmt.Sprintf("%s can't be reached: %v", to.Host, err)), status)
}

// bounded returns r, which fails once the answers of all registries together exceed the proxy's budget.
func (g *proxy) bounded(r io.Reader) io.Reader { return &budget{r, &g.left} }

// budget is a reader that fails when left, in bytes, is used up.
type budget struct {
	io.Reader
	left *atomic.Int64
}

// Read implements io.Reader.
func (b *budget) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left.Add(-int64(n)) < 0 {
		return 0, errors.New("more would have to be downloaded than the store allows")
	}
	return n, err
}
