package packages

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// settings are the operator's configuration of a package manager, split in two: the part by which the registries are reached, and
// the part that the package manager gets inside.
type settings struct {
	sources     []source
	credentials []credential
	proxy       func(*url.URL) (*url.URL, error) // the operator's own
	roots       *x509.CertPool                   // nil: the system's
	client      []tls.Certificate
	untrusted   func(host string) bool // reports that a certificate is not checked, of "host" or "host:port"; nil: of none

	env    []string          // KEY=VALUE
	files  map[string]string // by path below the workspace
	mounts []backends.Mount
	secret []string // passwords

	account string // sources and credentials, in full: what one account of a registry may fetch, another one may not
}

// source is a URL that packages come from, without credentials.
type source struct {
	base *url.URL
	what string // "pip's index-url"
}

// credential stands in requests below a URL. Sandboxes see neither it nor its placeholder: the relay adds both outside.
type credential struct {
	prefix             string // "//host:port/path/"
	header             string // Authorization, with the placeholder
	placeholder, value string
}

// take adds a source, and its credentials separately. It returns the URL without them.
func (s *settings) take(what, raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, badSetting{what}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		s.login(nerf(u), login{Name: u.User.Username(), Password: password})
		u.User = nil
	}
	u.Fragment = ""
	s.sources = append(s.sources, source{u, what})
	s.account += fmt.Sprintf("source %q\n", u)
	return u, nil
}

// badSetting names a setting without its value, in which there may be a password.
type badSetting struct{ what string }

func (b badSetting) Error() string { return b.what + " is not a http or https URL" }

// login adds credentials at a prefix. Where there is no password, the name is the secret. Incomplete ones are left out.
func (s *settings) login(prefix string, l login) {
	s.account += fmt.Sprintf("login %q %q %q %q\n", prefix, l.Name, l.Password, l.Token)
	placeholder := rand.Text()
	switch {
	case l.Token != "":
		s.bind(prefix, "Bearer "+placeholder, placeholder, l.Token)
	case l.Password != "":
		s.bind(prefix, basic(l.Name+":"+placeholder), placeholder, l.Password)
	case l.Name != "":
		s.bind(prefix, basic(placeholder+":"), placeholder, l.Name)
	}
}

func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

// bind adds a credential for a prefix, and for its whole host: files need not lie below the index, but they are of the same server.
func (s *settings) bind(prefix, header, placeholder, value string) {
	s.hide(value)
	host, _, _ := strings.Cut(strings.TrimPrefix(prefix, "//"), "/")
	for _, p := range []string{prefix, "//" + host + "/"} {
		s.credentials = append(s.credentials, credential{p, header, placeholder, value})
	}
}

// hide adds a secret.
func (s *settings) hide(secret string) {
	if secret != "" && !slices.Contains(s.secret, secret) {
		s.secret = append(s.secret, secret)
	}
}

// authorize returns the header for a URL: that of the longest prefix, "" if there is none.
func (s *settings) authorize(u *url.URL) string {
	full, best, header := "//"+address(u)+u.EscapedPath(), -1, ""
	for _, c := range s.credentials {
		if strings.HasPrefix(full+"/", c.prefix) && len(c.prefix) > best {
			best, header = len(c.prefix), c.header
		}
	}
	return header
}

// nerf returns a URL as the prefix of credentials: without its scheme, with its port and a final slash. npm calls it nerf-dart.
func nerf(u *url.URL) string {
	return "//" + address(u) + strings.TrimSuffix(u.EscapedPath(), "/") + "/"
}

// address returns "host:port" of a URL, in lower case, with the scheme's port if the URL has none.
func address(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), portOf(u))
}

// portOf returns a URL's port, or that of its scheme.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// transport sets the operator's proxy, that of the package manager's configuration or else that of the environment, and the certificates by
// which registries are reached.
func (s *settings) transport(c configuration) (err error) {
	if c.Roots != nil {
		s.roots = x509.NewCertPool()
		if c.More {
			if s.roots, err = x509.SystemCertPool(); err != nil {
				return err
			}
		}
		if !s.roots.AppendCertsFromPEM([]byte(*c.Roots)) {
			return errors.New("the file of authorities holds no certificates")
		}
	}
	if c.Client != "" {
		pair, err := tls.X509KeyPair([]byte(c.Client), []byte(c.Client))
		if err != nil {
			return fmt.Errorf("the client's certificate and key: %w", err)
		}
		s.client = []tls.Certificate{pair}
		s.account += fmt.Sprintf("certificate %q\n", pair.Certificate)
	}
	env := httpproxy.FromEnvironment()
	p := httpproxy.Config{HTTPProxy: cmp.Or(c.Options["proxy"], env.HTTPProxy), NoProxy: strings.ReplaceAll(c.Options["noproxy"], "\n", ",")}
	p.HTTPSProxy = cmp.Or(c.Options["https-proxy"], c.Options["proxy"], env.HTTPSProxy)
	for _, raw := range []string{p.HTTPProxy, p.HTTPSProxy} {
		if raw == "" {
			continue
		}
		s.account += fmt.Sprintf("proxy %q\n", raw)
		if !strings.Contains(raw, "://") {
			raw = "http://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			return badSetting{"the proxy"}
		}
		if u.User != nil {
			password, _ := u.User.Password()
			s.hide(password)
		}
	}
	s.proxy = p.ProxyFunc()
	return nil
}
