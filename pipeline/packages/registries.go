package packages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/relay"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// proxyPort is the port of an install's gateway as its proxy.
const proxyPort = 3128

// registries decide which URLs an install may fetch: all URLs of the hosts in its settings, and elsewhere the exact
// URLs to which these redirect. They are the policy of the install's gateway and relay.
type registries struct {
	set     settings
	python  bool // for Python, else for Node
	wheels  bool // only wheels of Python's files: others would run code
	secrets vault.Leases
	relay   *relay.Relay // passes requests of the install, and adds credentials
	outside *egress.Dialer
	show    *screen

	mu        sync.Mutex
	left      int64               // remaining bytes to download
	redirects map[string]redirect // by URL
	troubles  []string            // connection errors, which pip hides
	received  []string            // hash of each downloaded file, as in [Package]
	pending   int                 // incomplete downloads
}

// redirect has the source of a redirect, and the URL of the original request.
type redirect struct {
	why   string
	asked *url.URL
}

// newRegistries returns the registries of set, with at most max bytes of downloads. The caller closes the secrets.
func newRegistries(set settings, outside *egress.Dialer, python, scripts bool, max int64, show *screen) (*registries, error) {
	var values []vault.Value
	for i, v := range set.secrets {
		values = append(values, vault.Value{Name: "SECRET_" + strconv.Itoa(i), Value: []byte(v)})
	}
	lease, err := vault.New().LeaseValues(values)
	if err != nil {
		return nil, fmt.Errorf("a password in the package manager's configuration: %w", err)
	}
	s := &registries{set: set, python: python, wheels: python && !scripts, secrets: vault.Leases{lease},
		outside: cmp.Or(outside, &egress.Dialer{}),
		show:    show, left: max, redirects: map[string]redirect{}}
	var bound []relay.Secret
	for _, c := range s.set.credentials {
		to := func(name string, port int) bool { return strings.HasPrefix(c.prefix, "//"+hostPort(name, port)+"/") }
		bound = append(bound, relay.Secret{Name: "of " + c.prefix, Placeholder: c.placeholder, Value: func() string { return c.value }, Bound: to,
			Clear: func(name string, port int) bool { return s.set.hosts[hostPort(name, port)].scheme == "http" }})
	}
	s.relay, err = relay.New(relay.Config{
		Secrets: func() []relay.Secret { return bound }, Redact: s.secrets.Redact, Redactor: s.secrets.Writer, Roots: s.set.roots,
		Fetch: &relay.Fetch{Permit: s.permit, OnAnswer: s.answered, OnFailure: s.trouble, Certificates: s.set.client,
			Proxy: func(r *http.Request) (*url.URL, error) { return s.set.proxy(r.URL) },
			Unverified: func(name string, port int) bool {
				return slices.ContainsFunc(s.set.Untrusted, func(u string) bool { return u == "*" || u == name || u == hostPort(name, port) })
			}},
	})
	return s, err
}

// hostAt returns the settings of a host, the zero value if it is unknown.
func (s *registries) hostAt(at string) host {
	if h := s.set.hosts[at]; h.named {
		return h
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for to, r := range s.redirects {
		if u, _ := url.Parse(to); address(u) == at {
			return host{scheme: u.Scheme, why: r.why}
		}
	}
	return host{}
}

var errNotConfigured = errors.New("it is not a configured registry: if a registry has its files there, configure that host as " +
	"a further registry")

// decide implements egress.Config.Decide.
func (s *registries) decide(_ context.Context, name string, port int) egress.Decision {
	d := egress.Decision{Name: shorten(name), Port: port}
	if port == 0 {
		d.Reason = "installs can't look up names: they use a proxy"
		return d
	}
	why := s.hostAt(hostPort(name, port)).why
	if d.Allowed, d.Reason = why != "", cmp.Or(why, errNotConfigured.Error()); !d.Allowed {
		s.trouble(d.Host() + " is refused: " + d.Reason)
	}
	return d
}

// permit implements relay.Fetch.Permit.
func (s *registries) permit(u *url.URL) (authorization string, err error) {
	if h := s.set.hosts[address(u)]; h.scheme != u.Scheme && s.redirectTo(u).why == "" {
		return "", errNotConfigured
	}
	return s.set.authorize(u), nil
}

// redirectTo returns the redirect that leads to a URL, or the zero value.
func (s *registries) redirectTo(u *url.URL) redirect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redirects[key(u)]
}

// key returns the normalized form of a URL for redirects.
func key(u *url.URL) string {
	return u.Scheme + "://" + address(u) + u.EscapedPath() + "?" + u.RawQuery
}

func hostPort(name string, port int) string { return net.JoinHostPort(name, strconv.Itoa(port)) }

// answered implements relay.Fetch.OnAnswer.
func (s *registries) answered(res *http.Response) error {
	at := res.Request.URL
	asked := cmp.Or(s.redirectTo(at).asked, at)
	if res.StatusCode >= 400 && res.StatusCode != http.StatusNotFound {
		s.trouble(at.Host + " answered " + res.Status)
	}
	if to, err := res.Location(); err == nil && res.StatusCode/100 == 3 {
		s.noteRedirect(at, to, asked)
	}
	d := &download{ReadCloser: res.Body, registries: s}
	res.Body = d
	isFile := res.Request.Method == http.MethodGet && res.StatusCode/100 == 2 && !s.isPage(asked, res.Header.Get("Content-Type"))
	switch {
	case !isFile, s.wheels && strings.HasSuffix(asked.Path, ".metadata"): // PEP 658
		return nil
	case s.wheels && !strings.HasSuffix(asked.Path, ".whl"):
		return errors.New("only wheels are allowed, because building from source runs code of the package")
	}
	if d.file, d.sum = at, sha512.New(); s.python {
		d.sum = sha256.New()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending++ // its content is unknown until its end
	return nil
}

// isPage reports whether an answer is a page of an index, not a file.
func (s *registries) isPage(at *url.URL, contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	pages := []string{"text/html", "application/json", "application/vnd.pypi.simple.v1+html", "application/vnd.pypi.simple.v1+json",
		"application/vnd.npm.install-v1+json"}
	return slices.Contains(pages, media) && slices.ContainsFunc(s.set.Registries, func(r source) bool {
		u, _ := url.Parse(r.URL)
		return address(u) == address(at) && strings.HasPrefix(at.Path, strings.TrimSuffix(u.Path, "/"))
	})
}

// noteRedirect allows the URL to which a registry redirects: a registry may have its files at any public host, but
// encryption must not be dropped. An operator's proxy would connect to literal addresses of its own network, so these
// are refused.
func (s *registries) noteRedirect(from, to, asked *url.URL) {
	_, err := netip.ParseAddr(to.Hostname())
	if isAddress := err == nil; isAddress || to.Scheme != "https" && (to.Scheme != "http" || from.Scheme != "http") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redirects[key(to)] = redirect{"where " + from.Host + " redirects to", asked}
}

// dial implements egress.Config.Dial. Hosts that the operator named may have any address; targets of redirects only
// addresses that the operator allows to all programs.
func (s *registries) dial(ctx context.Context, name string, port int) (net.Conn, error) {
	to := hostPort(name, port)
	h := s.hostAt(to)
	via, err := s.set.proxy(&url.URL{Scheme: h.scheme, Host: to})
	if err != nil {
		return nil, err
	}
	if via == nil && !h.named {
		return s.outside.Dial(ctx, name, port)
	}
	if via != nil {
		to = address(via)
	}
	d := net.Dialer{Timeout: 20 * time.Second}
	return d.DialContext(ctx, "tcp", to)
}

// trouble records a failure, up to 5 different ones.
func (s *registries) trouble(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.troubles) < 5 && !slices.Contains(s.troubles, text) {
		s.troubles = append(s.troubles, text)
	}
}

// download is a body that fails above the maximum. It hashes files.
type download struct {
	io.ReadCloser
	*registries
	file *url.URL // nil if it is not a file, or has ended
	sum  hash.Hash
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left -= int64(n); d.left < 0 {
		return 0, errors.New("the downloads exceed the limit of the store")
	}
	if d.file == nil {
		return n, err
	}
	d.sum.Write(p[:n])
	if err == io.EOF {
		d.pending--
		hash := "sha512-" + base64.StdEncoding.EncodeToString(d.sum.Sum(nil))
		if d.python {
			hash = "sha256:" + hex.EncodeToString(d.sum.Sum(nil))
		}
		d.received = append(d.received, hash)
		if !d.python { // pip reports it itself
			d.show.cleanLine("fetched " + path.Base(d.file.Path) + " from " + d.file.Host)
		}
		d.file = nil
	}
	return n, err
}

// onlyReceived reports whether all downloaded files are those of these packages. Then the result of the package
// manager depends on nothing else, even if the files attacked it.
func (s *registries) onlyReceived(of []Package) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := []string{}
	for _, p := range of {
		named = append(named, p.Hash)
	}
	isOther := func(hash string) bool { return !slices.Contains(named, hash) }
	return s.pending == 0 && len(named) > 0 && !slices.Contains(named, "") && !slices.ContainsFunc(s.received, isOther)
}
