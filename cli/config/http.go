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
func httpSettings() []setting {
	return []setting{
		listenAt("http.listen", func(c *Config) *string { return &c.HTTP.Listen }),
		text("http.socket_group", func(c *Config) *string { return &c.HTTP.Group }),
		pathOr(None, "http.tls_cert", func(c *Config) *string { return &c.HTTP.Cert }),
		pathOr(None, "http.tls_key", func(c *Config) *string { return &c.HTTP.Key }),
		list("http.hosts", func(c *Config) *[]string { return &c.HTTP.Hosts }),
		domainName("http.domain", func(c *Config) *string { return &c.HTTP.Domain }),
		yesNo("http.page", "", func(c *Config) *bool { return &c.HTTP.Page }),
		list("http.origins", func(c *Config) *[]string { return &c.HTTP.Origins }),
		count("http.drain_seconds", "", 0, 3600, func(c *Config) *int { return &c.HTTP.DrainSeconds }),
		count("http.requests", "", 1, 1_000_000, func(c *Config) *int { return &c.HTTP.Requests }),
		pathOr(None, "http.client_ca", func(c *Config) *string { return &c.HTTP.ClientCA }),
		address("http.oauth.issuer", "https://login.example.com", func(c *Config) *string { return &c.HTTP.OAuth.Issuer }),
		address("http.oauth.resource", "https://sandbox.example.com/mcp", func(c *Config) *string { return &c.HTTP.OAuth.Resource }),
		text("http.oauth.audience", func(c *Config) *string { return &c.HTTP.OAuth.Audience }),
		address("http.oauth.jwks", "https://login.example.com/keys", func(c *Config) *string { return &c.HTTP.OAuth.JWKS }),
		text("http.oauth.namespaces_claim", func(c *Config) *string { return &c.HTTP.OAuth.Namespaces }),
		list("http.oauth.scopes", func(c *Config) *[]string { return &c.HTTP.OAuth.Scopes }),
		text("http.oauth.person_scope", func(c *Config) *string { return &c.HTTP.OAuth.Person }),
	}
}

// listenAt returns the setting of an address to listen at. A TCP host and port are only split here, not looked up.
func listenAt(key string, of func(*Config) *string) setting {
	return setting{key, "", None + ", HOST:PORT, unix:PATH, systemd", func(c *Config, v value) error {
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
			*of(c) = at
		}
		return err
	}, func(c *Config) string { return quoted(cmp.Or(*of(c), None)) }}
}

// domainName returns the setting of a domain, with or without a port.
func domainName(key string, of func(*Config) *string) setting {
	s := text(key, of)
	s.takes = None + ", a domain"
	set := s.set
	s.set = func(c *Config, v value) error {
		if err := set(c, v); err != nil {
			return err
		}
		name, port, found := strings.Cut(*of(c), ":")
		_, err := strconv.ParseUint(port, 10, 16)
		if u, wrong := url.Parse("https://" + name + "/"); *of(c) != "" && (wrong != nil || u.Hostname() != name || strings.ContainsAny(name, "*_") || net.ParseIP(name) != nil || found && err != nil) {
			return fmt.Errorf("%q is no domain: write it as sandbox.example.com, without https:// and *", *of(c))
		}
		*of(c) = strings.ToLower(*of(c))
		return nil
	}
	return s
}

// text returns the setting of any text; the word None stands for "".
func text(key string, of func(*Config) *string) setting {
	return setting{key, "", None + ", a text", func(c *Config, v value) error {
		word, err := v.text()
		if word == None {
			word = ""
		}
		if err == nil {
			*of(c) = word
		}
		return err
	}, func(c *Config) string {
		if *of(c) == "" {
			return None
		}
		return quoted(*of(c))
	}}
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
		d.fields(full, v, map[string]setting{
			"kind":       word(full+".kind", "", []string{"agent", "person"}, func(*Config) *string { return &c.Kind }),
			"namespaces": list(full+".namespaces", func(*Config) *[]string { return &c.Namespaces }),
		}, "a certificate has kind and namespaces")
		if c.Kind == "" {
			d.fail(d.at(k), full, "its kind is missing: agent or person")
		}
		if d.c.HTTP.Certificates == nil {
			d.c.HTTP.Certificates = map[string]Certificate{}
		}
		d.c.HTTP.Certificates[k.Value] = c
	})
}

// certificateOrigins are the settings of the certificates, by name.
func (c Config) certificateOrigins() (all []Setting) {
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Certificates)) {
		one, key := c.HTTP.Certificates[name], "http.certificates."+name
		all = append(all, Setting{key + ".kind", one.Kind, c.From(key + ".kind")},
			Setting{key + ".namespaces", flow(one.Namespaces), c.From(key + ".namespaces")})
	}
	return all
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
