package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/relay"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// proxyPort is the port at which an install's gateway is its proxy.
const proxyPort = 3128

// sites are what an install may fetch: all that is at the addresses of the sources, and elsewhere the very files that their pages link to
// and they redirect to. It is the policy of the install's gateway and relay.
type sites struct {
	set     settings
	secrets vault.Leases
	outside *egress.Dialer          // refuses addresses that are not of the internet
	fetched func(name, host string) // of each file; may be nil
	left    atomic.Int64            // bytes that may still come in
	private atomic.Bool             // a source is at a private address, so files may be, too
	cache   cache
	temp    string // directory for files on their way to the cache

	mu       sync.Mutex
	hosts    map[string]string // why a host may be connected to, by scheme://host:port
	files    map[string]link   // by key
	troubles []string          // why registries could not be reached, which pip would keep to itself
	received map[string]bool   // hashes of files that came in, once they are known to be right
	unknown  int               // files that came in, or begin to, and are not known to be right
}

// link is what may be fetched although it is not of a source.
type link struct {
	why  string
	page bool   // of an index, whose links count
	hash string // as a page says it; "" if none does
}

// newSites returns the sources of set, from which at most max bytes come in. Files on their way to the cache are in the directory temp. The caller
// closes the secrets.
func newSites(set settings, outside *egress.Dialer, max int64, files cache, temp string) (*sites, error) {
	var values []vault.Value
	for i, v := range set.secret {
		values = append(values, vault.Value{Name: "SECRET_" + strconv.Itoa(i), Value: []byte(v)})
	}
	lease, err := vault.New().LeaseValues(values)
	if err != nil {
		return nil, fmt.Errorf("a password of the package manager's configuration: %w", err)
	}
	s := &sites{set: set, secrets: vault.Leases{lease}, outside: cmp.Or(outside, &egress.Dialer{}), hosts: map[string]string{}, files: map[string]link{},
		cache: files, temp: temp, received: map[string]bool{}}
	s.left.Store(max)
	for _, from := range set.sources {
		s.hosts[origin(from.base)] = from.what
	}
	return s, nil
}

// relay returns the relay that lets an install fetch, and puts credentials into its requests.
func (s *sites) relay() (*relay.Relay, error) {
	var bound []relay.Secret
	for _, c := range s.set.credentials {
		to := func(name string, port int) bool { return strings.HasPrefix(c.prefix, "//"+join(name, port)+"/") }
		bound = append(bound, relay.Secret{Name: "of " + c.prefix, Placeholder: c.placeholder, Value: func() string { return c.value }, Bound: to,
			Clear: func(name string, port int) bool { return s.source(&url.URL{Scheme: "http", Host: join(name, port)}) }})
	}
	return relay.New(relay.Config{
		Secrets: func() []relay.Secret { return bound }, Redact: s.secrets.Redact, Redactor: s.secrets.Writer, Roots: s.set.roots,
		Fetch: &relay.Fetch{Permit: s.permit, Cached: s.cached, Answered: s.answered, Failed: s.trouble, Proxy: s.proxy, Certificates: s.set.client,
			Unverified: func(name string, port int) bool {
				return s.set.untrusted != nil && (s.set.untrusted(name) || s.set.untrusted(join(name, port)))
			}},
	})
}

// decide implements egress.Config.Decide.
func (s *sites) decide(_ context.Context, name string, port int) egress.Decision {
	d := egress.Decision{Name: shorten(name), Port: port}
	if port == 0 {
		d.Reason = "an install looks no names up: it asks its proxy"
		return d
	}
	s.mu.Lock()
	why := cmp.Or(s.hosts["https://"+join(name, port)], s.hosts["http://"+join(name, port)])
	s.mu.Unlock()
	d.Allowed, d.Reason = why != "", cmp.Or(why, errNotConfigured.Error())
	if !d.Allowed {
		s.trouble(d.Host() + " is refused: " + d.Reason)
	}
	return d
}

var errNotConfigured = errors.New("no registry that the package manager is configured for is there, and none links to it")

// permit implements relay.Fetch.Permit.
func (s *sites) permit(u *url.URL) (authorization string, err error) {
	wheel := *u
	wheel.Path = strings.TrimSuffix(u.Path, ".metadata") // PEP 658: it lies beside the wheel
	if s.known(u) == (link{}) && s.known(&wheel) == (link{}) && !s.source(u) {
		return "", errNotConfigured
	}
	return s.set.authorize(u), nil
}

// source reports whether a URL is at the address of a source.
func (s *sites) source(u *url.URL) bool {
	return slices.ContainsFunc(s.set.sources, func(from source) bool { return origin(from.base) == origin(u) })
}

// pageAt reports whether a page of an index may be at a URL: below a source, or where one redirects to.
func (s *sites) pageAt(u *url.URL) bool {
	return s.known(u).page || slices.ContainsFunc(s.set.sources, func(from source) bool {
		return origin(from.base) == origin(u) && strings.HasPrefix(u.Path, strings.TrimSuffix(from.base.Path, "/"))
	})
}

// known returns what is known of a URL.
func (s *sites) known(u *url.URL) link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[key(u)]
}

// add allows a file to be fetched, unless it is at a literal address that no registry may lead to: a proxy of the operator's would connect
// to that.
func (s *sites) add(u *url.URL, f link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !s.source(u) && s.refuses(a) != "" {
		return
	}
	f.page = f.page || s.files[key(u)].page
	if s.hosts[origin(u)] == "" {
		s.hosts[origin(u)] = f.why
	}
	s.files[key(u)] = f
}

// key returns the spelling of a URL by which files are found.
func key(u *url.URL) string { return origin(u) + u.Path + "?" + u.RawQuery }

// origin returns scheme://host:port.
func origin(u *url.URL) string { return u.Scheme + "://" + address(u) }

func join(name string, port int) string { return net.JoinHostPort(name, strconv.Itoa(port)) }

// answered implements relay.Fetch.Answered: it learns what the answer allows to be fetched, and counts its bytes.
func (s *sites) answered(res *http.Response) error {
	from := res.Request.URL
	if res.StatusCode >= 400 && res.StatusCode != http.StatusNotFound {
		s.trouble(from.Host + " answered " + res.Status)
	}
	// A registry may keep its files anywhere, but what was encrypted stays so.
	if to, err := res.Location(); err == nil && res.StatusCode < 400 && (from.Scheme == "http" || to.Scheme == "https") {
		s.add(to, link{"where " + from.Host + " redirects to", s.pageAt(from), s.known(from).hash})
	}
	page, err := s.learn(res)
	d := &download{ReadCloser: res.Body, sites: s}
	if !page && res.Request.Method == http.MethodGet && res.StatusCode/100 == 2 {
		d.begin(res)
	}
	res.Body = d
	return err
}

// cached implements relay.Fetch.Cached: by the hash that a page of the registry has told this install, the cache has a file.
func (s *sites) cached(r *http.Request) *http.Response {
	want := s.known(r.URL).hash
	if r.Method != http.MethodGet || r.Header.Get("Range") != "" || hasher(want) == nil || s.cache.max == 0 {
		return nil
	}
	f := s.cache.file(want)
	if f == nil {
		return nil
	}
	res := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/octet-stream"}}, Body: f, ContentLength: -1, Request: r}
	if info, err := f.Stat(); err == nil {
		res.ContentLength = info.Size()
	}
	return res
}

// download is a body that fails when more comes in than may. That of a file is hashed and kept.
type download struct {
	io.ReadCloser
	*sites
	file       *url.URL // nil if it is none, or has ended
	from, want string
	sum        hash.Hash // nil if want is unknown
	copy       *os.File  // nil if it is not kept
}

// begin has d treated as a file. Until its end it may be anything.
func (d *download) begin(res *http.Response) {
	u := res.Request.URL
	if strings.HasSuffix(u.Path, ".metadata") && d.known(u) == (link{}) {
		return // it is a part of the index, and names no file's content
	}
	d.file, d.from, d.want = u, u.Host, d.known(u).hash
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, is := res.Body.(*os.File); is { // its hash was right when it was taken
		d.from, d.received[d.want] = "the cache", true
		return
	}
	d.unknown++
	if d.sum = hasher(d.want); d.sum != nil && d.cache.max > 0 {
		d.copy, _ = os.CreateTemp(d.temp, "file-")
	}
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.left.Add(-int64(n)) < 0 {
		return 0, errors.New("more would have to be downloaded than the store allows")
	}
	if d.sum != nil {
		d.sum.Write(p[:n])
	}
	if d.copy != nil {
		if _, failed := d.copy.Write(p[:n]); failed != nil {
			d.drop()
		}
	}
	if err == io.EOF && d.file != nil {
		d.end()
	}
	return n, err
}

// end keeps the file, which is whole, if it is what the index says.
func (d *download) end() {
	if d.fetched != nil {
		d.fetched(path.Base(d.file.Path), d.from)
	}
	d.file = nil
	if d.sum == nil || spelled(d.sum) != d.want {
		return
	}
	d.mu.Lock()
	d.received[d.want] = true
	d.unknown--
	d.mu.Unlock()
	if d.copy != nil && d.copy.Close() == nil {
		d.cache.addFile(d.copy.Name(), d.want)
	}
}

// drop gives the copy up.
func (d *download) drop() {
	if d.copy != nil {
		d.copy.Close()
		os.Remove(d.copy.Name())
		d.copy = nil
	}
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.drop() // but for its name, if it has got another one
	return d.ReadCloser.Close()
}

// trouble records a failure, up to 5 different ones.
func (s *sites) trouble(text string) {
	const limit = 5
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.troubles) < limit && !slices.Contains(s.troubles, text) {
		s.troubles = append(s.troubles, text)
	}
}

// troubled returns the recorded failures.
func (s *sites) troubled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.troubles)
}

// proxy returns the operator's proxy for a request, nil for none.
func (s *sites) proxy(r *http.Request) (*url.URL, error) {
	if s.set.proxy == nil {
		return nil, nil
	}
	return s.set.proxy(r.URL)
}

// dial implements egress.Config.Dial. What the operator named may be at any address; where registries lead to may be at a private one
// only if a source is, or the operator allows it to all programs.
func (s *sites) dial(ctx context.Context, name string, port int) (net.Conn, error) {
	to, scheme := join(name, port), "https"
	s.mu.Lock()
	if s.hosts["https://"+to] == "" {
		scheme = "http"
	}
	s.mu.Unlock()
	at := &url.URL{Scheme: scheme, Host: to}
	source := s.source(at)
	named := source
	if via, err := s.proxy(&http.Request{URL: at}); err != nil {
		return nil, err
	} else if via != nil {
		to, named, source = address(via), true, false
	}
	d := net.Dialer{Timeout: 20 * time.Second, Control: func(_, at string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(at)
		if err != nil {
			return err
		}
		if source && egress.Owned(ap.Addr()) {
			s.private.Store(true)
		}
		if why := s.refuses(ap.Addr()); why != "" && !named {
			return &egress.Blocked{Name: name, Addr: ap.Addr(), Why: why}
		}
		return nil
	}}
	conn, err := d.DialContext(ctx, "tcp", to)
	if blocked, is := errors.AsType[*egress.Blocked](err); is {
		err = blocked
	}
	return conn, err
}

// refuses returns why registries may not lead to an address, or "".
func (s *sites) refuses(a netip.Addr) string {
	if s.private.Load() && egress.Owned(a) {
		return ""
	}
	return s.outside.Refuses(a)
}
