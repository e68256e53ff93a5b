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

// proxyPort is the port at which an install's gateway is its proxy.
const proxyPort = 3128

// registries are what an install may fetch: all that the hosts in its settings have, and elsewhere the very URLs
// that these redirect to. It is the policy of the install's gateway and relay.
type registries struct {
	set     settings
	python  bool // rather than Node's
	wheels  bool // of Python's files, nothing but wheels: the others would run code
	secrets vault.Leases
	relay   *relay.Relay // lets an install fetch, and puts credentials into its requests
	outside *egress.Dialer
	show    *screen

	mu        sync.Mutex
	left      int64               // bytes that may still come in
	redirects map[string]redirect // by URL
	troubles  []string            // why registries could not be reached, which pip would keep to itself
	received  []string            // the hash of each file that came in, as [Package] has it
	pending   int                 // files that come in, or came in part
}

// redirect tells what leads to a URL, and the URL that was asked for at first.
type redirect struct {
	why   string
	asked *url.URL
}

// newRegistries returns those of set, from which at most max bytes come in. The caller closes the secrets.
func newRegistries(set settings, outside *egress.Dialer, python, scripts bool, max int64, show *screen) (*registries, error) {
	var values []vault.Value
	for i, v := range set.secrets {
		values = append(values, vault.Value{Name: "SECRET_" + strconv.Itoa(i), Value: []byte(v)})
	}
	lease, err := vault.New().LeaseValues(values)
	if err != nil {
		return nil, fmt.Errorf("a password of the package manager's configuration: %w", err)
	}
	s := &registries{set: set, python: python, wheels: python && !scripts, secrets: vault.Leases{lease}, outside: cmp.Or(outside, &egress.Dialer{}),
		show: show, left: max, redirects: map[string]redirect{}}
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

// hostAt returns what is known of a host, the zero value if nothing leads there.
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

var errNotConfigured = errors.New("no configured registry is there: if one has its files there, name that host as a further registry")

// decide implements egress.Config.Decide.
func (s *registries) decide(_ context.Context, name string, port int) egress.Decision {
	d := egress.Decision{Name: shorten(name), Port: port}
	if port == 0 {
		d.Reason = "an install looks no names up: it asks its proxy"
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

// redirectTo returns what leads to a URL, the zero value if nothing does.
func (s *registries) redirectTo(u *url.URL) redirect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redirects[key(u)]
}

// key returns the spelling of a URL by which redirects are found.
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
		return errors.New("only wheels are fetched, because what is built from source runs its code")
	}
	if d.file, d.sum = at, sha512.New(); s.python {
		d.sum = sha256.New()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending++ // until its end it may be anything
	return nil
}

// isPage reports whether an answer is a page of an index, and no file.
func (s *registries) isPage(at *url.URL, contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	pages := []string{"text/html", "application/json", "application/vnd.pypi.simple.v1+html", "application/vnd.pypi.simple.v1+json",
		"application/vnd.npm.install-v1+json"}
	return slices.Contains(pages, media) && slices.ContainsFunc(s.set.Registries, func(r source) bool {
		u, _ := url.Parse(r.URL)
		return address(u) == address(at) && strings.HasPrefix(at.Path, strings.TrimSuffix(u.Path, "/"))
	})
}

// noteRedirect allows the URL to which a registry redirects: it may keep its files at any name of the internet, but what was
// encrypted stays so. A proxy of the operator's would connect to literal addresses of its own network.
func (s *registries) noteRedirect(from, to, asked *url.URL) {
	_, err := netip.ParseAddr(to.Hostname())
	if isAddress := err == nil; isAddress || to.Scheme != "https" && (to.Scheme != "http" || from.Scheme != "http") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redirects[key(to)] = redirect{"where " + from.Host + " redirects to", asked}
}

// dial implements egress.Config.Dial. What the operator named may be at any address, and what redirects lead to only at
// those that the operator allows to all programs.
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

// download is a body that fails when more comes in than may. That of a file is hashed.
type download struct {
	io.ReadCloser
	*registries
	file *url.URL // nil if it is none, or has ended
	sum  hash.Hash
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left -= int64(n); d.left < 0 {
		return 0, errors.New("more would have to be downloaded than the store allows")
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
		if !d.python { // pip says it by itself
			d.show.cleanLine("fetched " + path.Base(d.file.Path) + " from " + d.file.Host)
		}
		d.file = nil
	}
	return n, err
}

// onlyReceived reports whether all files that came in are those of these packages. Then what the package manager made
// of them depends on nothing else, whatever these files did to it.
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
