package packages

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// configuration is the configuration of a package manager on this host, as printed by ask.py and ask.js.
type configuration struct {
	Registries        []source
	Logins            []login
	Mounts            []backends.Mount // directories of packages
	Inside            json.RawMessage  // for the install script; without secrets
	Proxy, HTTPSProxy string
	NoProxy, Client   string  // Client: certificate and key in PEM, for registries that request it
	Roots             *string // PEM: authorities for registries' certificates, in addition to the system's if More
	More              bool
	Untrusted         []string // "host" or "host:port" without certificate checks; "*" is all
}

// source is a registry at a URL without credentials. Its name is like "pip's index-url".
type source struct{ URL, Name string }

// login is a name and a password, or a token, for URLs below URL.
type login struct{ URL, Name, Password, Token string }

// settings are the configuration for installs: they determine the allowed hosts and their credentials.
type settings struct {
	configuration
	hosts       map[string]host // by "name:port"
	credentials []credential
	proxy       func(*url.URL) (*url.URL, error) // the operator's own
	roots       *x509.CertPool                   // nil: the system's
	client      []tls.Certificate
	secrets     []string
	account     string // registries and logins, without passwords
}

// host is an allowed host.
type host struct {
	scheme, why string
	named       bool // by the operator, or by filesOf: any URL is allowed, at any address
}

// filesOf maps public registries to the hosts of their files, if different. Others must be configured in the package
// manager as a further registry.
var filesOf = map[string]string{"pypi.org:443": "files.pythonhosted.org:443", "test.pypi.org:443": "test-files.pythonhosted.org:443"}

// FilesOf returns the host of the files of a public registry, "" if it has them itself.
func FilesOf(host string) string {
	files, _, _ := strings.Cut(filesOf[host+":443"], ":")
	return files
}

// credential is added to requests below a URL. Sandboxes see neither it nor its placeholder: the relay adds both
// outside.
type credential struct {
	prefix             string // "//host:port/path/"
	header             string // Authorization, with the placeholder
	placeholder, value string
}

// newSettings converts a configuration.
func newSettings(c configuration) (s settings, err error) {
	s = settings{configuration: c, hosts: map[string]host{}, account: fmt.Sprint(c.Registries)}
	for _, r := range c.Registries {
		u, err := url.Parse(r.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return s, fmt.Errorf("%s is not a http or https URL", r.Name) // don't quote it: it may contain a password
		}
		s.hosts[address(u)] = host{u.Scheme, r.Name, true}
		if files := filesOf[address(u)]; files != "" {
			s.hosts[files] = host{u.Scheme, "has the files of " + r.Name, true}
		}
	}
	for _, l := range c.Logins {
		if err := s.addLogin(l); err != nil {
			return s, err
		}
	}
	return s, errors.Join(s.setCertificates(), s.setProxy())
}

// addLogin adds credentials. Without a password, the name is the secret. Incomplete ones are ignored.
func (s *settings) addLogin(l login) error {
	u, err := url.Parse(l.URL)
	if err != nil {
		return errors.New("a login's registry is not a URL")
	}
	placeholder, value, header := rand.Text(), cmp.Or(l.Token, l.Password, l.Name), ""
	switch {
	case l.Token != "":
		header = "Bearer " + placeholder
	case l.Password != "":
		header = basic(l.Name + ":" + placeholder)
	default:
		header = basic(placeholder + ":")
	}
	if s.hide(value); value == "" {
		return nil
	}
	if s.account += fmt.Sprintf(" %q", l.URL); value != l.Name {
		s.account += fmt.Sprintf(" as %q", l.Name)
	}
	// Files may be outside the index, but on the same server.
	for _, prefix := range []string{strings.TrimSuffix(u.EscapedPath(), "/") + "/", "/"} {
		s.credentials = append(s.credentials, credential{"//" + address(u) + prefix, header, placeholder, value})
	}
	return nil
}

func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }

// hide adds a secret.
func (s *settings) hide(secret string) {
	if secret != "" && !slices.Contains(s.secrets, secret) {
		s.secrets = append(s.secrets, secret)
	}
}

// authorize returns the header for a URL: that of the longest prefix, or "".
func (s *settings) authorize(u *url.URL) string {
	full, best := "//"+address(u)+u.EscapedPath()+"/", credential{}
	for _, c := range s.credentials {
		if strings.HasPrefix(full, c.prefix) && len(c.prefix) > len(best.prefix) {
			best = c
		}
	}
	return best.header
}

// address returns the "host:port" of a URL, in lower case, with the scheme's default port.
func address(u *url.URL) string {
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), port))
}

// setCertificates sets the certificates for registries.
func (s *settings) setCertificates() (err error) {
	if s.Roots != nil {
		s.roots = x509.NewCertPool()
		if s.More {
			if s.roots, err = x509.SystemCertPool(); err != nil {
				return err
			}
		}
		if !s.roots.AppendCertsFromPEM([]byte(*s.Roots)) {
			return errors.New("the file of authorities contains no certificates")
		}
	}
	if s.Client != "" {
		pair, err := tls.X509KeyPair([]byte(s.Client), []byte(s.Client))
		if err != nil {
			return fmt.Errorf("the client's certificate and key: %w", err)
		}
		s.client = []tls.Certificate{pair}
	}
	return nil
}

// setProxy sets the operator's proxy: that of the package manager's configuration, or else of the environment.
func (s *settings) setProxy() error {
	env := httpproxy.FromEnvironment()
	p := httpproxy.Config{HTTPProxy: cmp.Or(s.Proxy, env.HTTPProxy), HTTPSProxy: cmp.Or(s.HTTPSProxy, s.Proxy, env.HTTPSProxy),
		NoProxy: s.NoProxy}
	for _, raw := range []string{p.HTTPProxy, p.HTTPSProxy} {
		if raw != "" && !strings.Contains(raw, "://") {
			raw = "http://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil || raw != "" && u.Host == "" {
			return errors.New("the proxy is not a http or https URL") // don't quote it: it may contain a password
		}
		password, _ := u.User.Password()
		s.hide(password)
	}
	s.proxy = p.ProxyFunc()
	return nil
}

// askTime bounds the time of a package manager to report its configuration.
const askTime = 20 * time.Second

// rememberFor is the time for which a package manager's settings and an interpreter's kind are cached: querying them
// takes longer than many installs.
const rememberFor = time.Minute

// settings returns the configuration of a language's package manager on this host, cached. It applies to installs in
// images too: the operator decides where packages come from, and an image's configuration has no effect.
func (s *Store) settings(ctx context.Context, b backends.Backend, language string) (settings, error) {
	key := language + " " + b.Name()
	if set, ok := s.asked.Get(key, rememberFor); ok {
		return set, nil
	}
	var runtime backends.Runtime // of this host: its package manager may be next to it; "" is the PATH
	if b.Name() == ownBackend {
		var err error
		if runtime, err = probed(ctx, b, language); err != nil {
			return settings{}, err
		}
	}
	c, err := s.readConfiguration(ctx, language, runtime.Path)
	if err != nil {
		return settings{}, err
	}
	set, err := newSettings(c)
	if err != nil {
		return settings{}, fmt.Errorf("read %s's configuration: %w", managers()[language].program, err)
	}
	s.asked.Store(key, set)
	return set, nil
}

// readConfiguration runs the operator's own package manager to print its configuration: that of an interpreter of
// this host, or the one on the PATH.
func (s *Store) readConfiguration(ctx context.Context, language, runtime string) (configuration, error) {
	m := managers()[language]
	program := ""
	for _, name := range []string{runtime, m.ask[0], language} {
		if at, err := exec.LookPath(name); err == nil && filepath.IsAbs(at) && program == "" {
			program = at
		}
	}
	c, err := runConfigurationQuery(ctx, s.cfg.Dir, program, m.ask[1:]...) // in the store's directory, which has no project's configuration
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch missed := program == "" || exit != nil && exit.ExitCode() == exitMissing; {
	case missed && runtime != "": // the install would need it too
		return c, missingManager(ownBackend, language)
	case missed:
		return c, backends.Refuse(m.program+" is missing on this host; its configuration determines the registries, for containers too",
			"install it here, too: its own installer or the system's package manager has it")
	case err != nil:
		return c, fmt.Errorf("ask %s for its configuration: %w", m.program, err)
	}
	return c, nil
}

// runConfigurationQuery returns the output of a program that queries a package manager. It gets our environment,
// which is part of the configuration, without secrets.
func runConfigurationQuery(ctx context.Context, dir, program string, args ...string) (c configuration, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(vault.WithoutSecrets(os.Environ()), "COLUMNS=1000", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_COLOR=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"npm_config_update_notifier=false")
	cmd.WaitDelay = time.Second
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	if err = cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(trouble.String()), "\n")
		return c, fmt.Errorf("%s: %w (%s)", filepath.Base(program), err, shorten(userinfo().ReplaceAllString(line, "//***@")))
	}
	return c, json.Unmarshal(out.Bytes(), &c)
}

// userinfo matches the password of a URL.
var userinfo = lazy.Regexp(`//[^/\s]*@`)
