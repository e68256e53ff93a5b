package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// HTTP configures where a server takes requests over HTTP, and who may send them besides the holders of a token.
type HTTP struct {
	Listen       string                 // "HOST:PORT", "unix:PATH" or "systemd"; "" is nowhere
	Group        string                 // who may connect to the Unix socket besides its owner; "" is nobody
	Cert, Key    string                 // paths of the certificate and its key; "" is no TLS
	Hosts        []string               // names of the server besides its address and the loopback's
	Domain       string                 // below which ports of sandboxes have names; "" is none
	Page         bool                   // people have a page there
	Origins      []string               // of pages that may send requests besides the server's own
	DrainSeconds int                    // seconds that requests under way have to end when the server ends
	Requests     int                    // per second, of one identity
	ClientCA     string                 // path of the certificates that sign those of clients; "" takes none
	Certificates map[string]Certificate // by "uri:...", "dns:..." or "cn:...", as a client's certificate has it
	OAuth        OAuth
	Templates    map[string]Template // of E2B's protocol, by the names that its clients ask for, besides base and code-interpreter-v1
}

// Certificate is the identity of a client that has the certificate, and its namespaces.
type Certificate struct {
	Kind       string // "agent" or "person"
	Namespaces []string
}

// OAuth configures the issuer whose JWTs are accepted. The zero value accepts none.
type OAuth struct {
	Issuer     string   // URL, as tokens have it
	Resource   string   // URL of the server's /mcp, as clients have it
	Audience   string   // of tokens; "" is Resource
	JWKS       string   // URL of the issuer's keys; "" is the one in its metadata
	Namespaces string   // the claim that has an agent's namespaces
	Scopes     []string // that a token must have
	Person     string   // the scope of a person's token; "" takes all for agents'
}

// httpSettings returns the settings of HTTP, except for certificates, whose keys are not fixed.
func httpSettings(c *Config) []setting {
	return []setting{
		{"http.listen", "", "where a server takes requests over HTTP, as serve --listen says; other machines need http.tls_cert", listenAt(&c.HTTP.Listen)},
		{"http.socket_group", "", "group that may connect to the Unix socket of http.listen, besides its owner", text(&c.HTTP.Group)},
		{"http.tls_cert", "", "file of the server's certificate, which is read again when it changes", pathOr(None, &c.HTTP.Cert)},
		{"http.tls_key", "", "file of the certificate's key, likewise", pathOr(None, &c.HTTP.Key)},
		{"http.hosts", "", "names and addresses that requests may have in Host, besides the server's own address", list(&c.HTTP.Hosts)},
		{"http.domain", "", "domain below which ports of sandboxes of E2B's protocol have the names PORT-ID.DOMAIN, and the server api.DOMAIN and sandbox.DOMAIN", domainName(&c.HTTP.Domain)},
		{"http.page", "", "people have a page at the address, which sandboxmcp page opens", yesNo(&c.HTTP.Page)},
		{"http.origins", "", "origins of pages that may send requests, such as https://app.example.com", list(&c.HTTP.Origins)},
		{"http.drain_seconds", "", "seconds that requests under way have to end when the server ends", count(0, 3600, &c.HTTP.DrainSeconds)},
		{"http.requests", "", "requests a second that one identity may send to a server's HTTP address, and four times as many at once", count(1, 1_000_000, &c.HTTP.Requests)},
		{"http.client_ca", "", "file of the certificates that sign those of clients", pathOr(None, &c.HTTP.ClientCA)},
		{"http.oauth.issuer", "", "URL of the issuer whose JWTs are taken, as they have it", address("https://login.example.com", &c.HTTP.OAuth.Issuer)},
		{"http.oauth.resource", "", "URL of the server's /mcp as clients have it", address("https://sandbox.example.com/mcp", &c.HTTP.OAuth.Resource)},
		{"http.oauth.audience", "", "audience of JWTs; none is http.oauth.resource", text(&c.HTTP.OAuth.Audience)},
		{"http.oauth.jwks", "", "URL of the issuer's keys; none is where its metadata say", address("https://login.example.com/keys", &c.HTTP.OAuth.JWKS)},
		{"http.oauth.namespaces_claim", "", "claim of a JWT that has the namespaces of an agent", text(&c.HTTP.OAuth.Namespaces)},
		{"http.oauth.scopes", "", "scopes that a JWT must have", list(&c.HTTP.OAuth.Scopes)},
		{"http.oauth.person_scope", "", "scope of the JWTs of persons; none takes all for agents'", text(&c.HTTP.OAuth.Person)},
	}
}

// listenAt is an address to listen at. A TCP host and port are only split here, not looked up.
func listenAt(of *string) kind {
	return kind{None + ", HOST:PORT, unix:PATH, systemd", func(v value) error {
		at, err := v.text()
		path, unix := strings.CutPrefix(at, "unix:")
		_, _, tcp := net.SplitHostPort(at)
		switch {
		case err != nil:
			return err
		case at == None:
			at = ""
		case unix:
			path, err = v.path(path)
			at = "unix:" + path
		case at != "systemd" && tcp != nil:
			return fmt.Errorf("%q is no address: write one like 127.0.0.1:8750, unix:/run/sandboxmcp/http.sock, or systemd", at)
		}
		if err == nil {
			*of = at
		}
		return err
	}, func() string { return quoted(cmp.Or(*of, None)) }}
}

// domainName is a domain, with or without a port.
func domainName(of *string) kind {
	k := checked(None+", a domain", None, of, func(text string) error {
		name, port, found := strings.Cut(text, ":")
		_, err := strconv.ParseUint(port, 10, 16)
		if u, wrong := url.Parse("https://" + name + "/"); wrong != nil || u.Hostname() != name || strings.ContainsAny(name, "*_") || net.ParseIP(name) != nil || found && err != nil {
			return fmt.Errorf("%q is no domain: write it as sandbox.example.com, without https:// and *", text)
		}
		return nil
	})
	set := k.set
	k.set = func(v value) error {
		err := set(v)
		*of = strings.ToLower(*of)
		return err
	}
	return k
}

// text is any text; the word None stands for "".
func text(of *string) kind {
	return checked(None+", a text", None, of, func(string) error { return nil })
}

// certificates reads the names of the client certificates that are accepted.
func (d *document) certificates(n *yaml.Node) {
	d.pairs("http.certificates.", n, func(full string, k, v *yaml.Node) {
		kind, name, _ := strings.Cut(k.Value, ":")
		if !slices.Contains([]string{"uri", "dns", "cn"}, kind) || name == "" || kind == "dns" && name != strings.ToLower(name) {
			d.fail(d.at(k), "http.certificates", "%.100q is no name in a certificate: write uri:URI, dns:NAME in small letters, or cn:NAME", k.Value)
			return
		}
		var c Certificate
		d.fields(full, v, c.settings(full), "a certificate has kind and namespaces")
		if c.Kind == "" {
			d.fail(d.at(k), full, "its kind is missing: agent or person")
		}
		if d.c.HTTP.Certificates == nil {
			d.c.HTTP.Certificates = map[string]Certificate{}
		}
		d.c.HTTP.Certificates[k.Value] = c
	})
}

// settings returns the settings of a certificate, whose keys begin with key.
func (c *Certificate) settings(key string) []setting {
	return []setting{
		{key: key + ".kind", kind: word([]string{"agent", "person"}, &c.Kind)},
		{key: key + ".namespaces", kind: list(&c.Namespaces)},
	}
}

// http checks settings of HTTP against each other.
func (l *loader) http() {
	h := l.c.HTTP
	switch {
	case h.OAuth.Issuer != "" && h.OAuth.Resource == "":
		l.fail(l.c.From("http.oauth.issuer"), "http.oauth.resource", "an issuer's tokens need it: the URL of /mcp as clients have it")
	case h.OAuth.Issuer == "" && h.OAuth.Resource != "":
		l.fail(l.c.From("http.oauth.resource"), "http.oauth.issuer", "tokens need it: the URL of whoever issues them")
	}
	if len(h.Certificates) > 0 && h.ClientCA == "" {
		name := slices.Sorted(maps.Keys(h.Certificates))[0]
		l.fail(l.c.From("http.certificates."+name+".kind"), "http.client_ca", "certificates need it: the file of those that sign them")
	}
}

// Template is what sandboxes of E2B's protocol are made in. Empty fields are the settings of all runs.
type Template struct{ Backend, Profile string }

// backends are the names of what contains programs.
func backends() []string { return []string{"process", "podman", "docker", "kubernetes"} }

// maxTemplate is the longest name of a template.
const maxTemplate = 100

// templates reads the names of templates, and what each is.
func (d *document) templates(n *yaml.Node) {
	d.pairs("http.templates.", n, func(full string, k, v *yaml.Node) {
		if k.Value == "" || len(k.Value) > maxTemplate {
			d.fail(d.at(k), "http.templates", "a template's name has 1 to %d bytes", maxTemplate)
			return
		}
		var t Template
		d.fields(full, v, t.settings(full), "a template has backend and profile")
		if d.c.HTTP.Templates == nil {
			d.c.HTTP.Templates = map[string]Template{}
		}
		d.c.HTTP.Templates[k.Value] = t
	})
}

// settings returns the settings of a template, whose keys begin with key.
func (t *Template) settings(key string) []setting {
	return []setting{
		{key: key + ".backend", kind: unquoted(word(backends(), &t.Backend), &t.Backend)},
		{key: key + ".profile", kind: unquoted(text(&t.Profile), &t.Profile)},
	}
}
