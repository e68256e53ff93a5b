package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// HTTP configures the addresses at which a server listens, and the clients that need no token.
type HTTP struct {
	Listen       string                 `key:"listen" is:"listen" about:"address of a server's HTTP, as in serve --listen; other machines need http.tls_cert"`
	Group        string                 `key:"socket_group" about:"group that may connect to the Unix socket of http.listen, besides its owner"`
	Cert         string                 `key:"tls_cert" is:"path or none" about:"file of the server's certificate; changes are noticed"`
	Key          string                 `key:"tls_key" is:"path or none" about:"file of the certificate's key, likewise"`
	Hosts        []string               `key:"hosts" about:"names and addresses that requests may have in Host, in addition to the server's own address"`
	Domain       string                 `key:"domain" is:"domain" about:"domain below which ports of sandboxes of E2B's protocol have the names PORT-ID.DOMAIN, and the server api.DOMAIN and sandbox.DOMAIN"`
	Page         bool                   `key:"page" default:"true" about:"people have a page at the address, which sandboxmcp page opens"`
	Proxies      []string               `key:"proxies" about:"reverse proxies with trusted X-Forwarded-For or Forwarded: addresses, networks, and unix for clients of a Unix socket"`
	Origins      []string               `key:"origins" about:"origins of pages that may send requests, such as https://app.example.com"`
	ClientCA     string                 `key:"client_ca" is:"path or none" about:"file of the certificate authorities of clients"`
	Certificates map[string]Certificate // by "uri:...", "dns:..." or "cn:...", as in the client's certificate
	OAuth        OAuth                  `key:"oauth"`
	// of E2B's protocol, by the names that its clients request, in addition to base and code-interpreter-v1
	Templates map[string]Template
}

// Certificate is the identity of a client with that certificate, and its namespaces.
type Certificate struct {
	Kind       string   `key:"kind" oneof:"agent person"`
	Namespaces []string `key:"namespaces"`
}

// OAuth configures the issuer of accepted JWTs. The zero value accepts none.
type OAuth struct {
	Issuer     string   `key:"issuer" url:"https://login.example.com" about:"URL of the issuer of accepted JWTs, as in the JWTs"`
	Resource   string   `key:"resource" url:"https://sandbox.example.com/mcp" about:"URL of the server's /mcp that clients use"`
	Audience   string   `key:"audience" about:"audience of JWTs; none is http.oauth.resource"`
	JWKS       string   `key:"jwks" url:"https://login.example.com/keys" about:"URL of the issuer's keys; none is the one in its metadata"`
	Namespaces string   `key:"namespaces_claim" default:"namespaces" about:"claim of a JWT that lists namespaces; a JWT without it, or with other values, is refused"`
	All        string   `key:"all_namespaces" about:"value of that claim, such as *, that means all namespaces for persons; with none, no JWT has all"`
	Scopes     []string `key:"scopes" about:"scopes that a JWT must have"`
	Person     string   `key:"person_scope" about:"scope of the JWTs of persons; with none, all are agents'"`
}

// listenKind returns the kind of an address to listen at. It splits a TCP host and port without a lookup.
func listenKind(of *string) kind {
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
			path, err = v.absolutePath(path)
			at = "unix:" + path
		case at != "systemd" && tcp != nil:
			return fmt.Errorf("%q is not an address: write one like 127.0.0.1:8750, unix:/run/sandboxmcp/http.sock, or systemd", at)
		}
		if err == nil {
			*of = at
		}
		return err
	}, func() string { return yamlWord(cmp.Or(*of, None)) }}
}

// domainKind returns the kind of a domain, with or without a port.
func domainKind(of *string) kind {
	k := checkedKind(None+", a domain", None, of, func(text string) error {
		name, port, found := strings.Cut(text, ":")
		_, err := strconv.ParseUint(port, 10, 16)
		if u, wrong := url.Parse("https://" + name + "/"); wrong != nil || u.Hostname() != name || strings.ContainsAny(name, "*_") ||
			net.ParseIP(name) != nil || found && err != nil {
			return fmt.Errorf("%q is not a domain: write one like sandbox.example.com, without https:// and *", text)
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

// textKind returns the kind of any text; the word None stands for "".
func textKind(of *string) kind {
	return checkedKind(None+", a text", None, of, func(string) error { return nil })
}

// readCertificates reads the names of accepted client certificates.
func (d *document) readCertificates(n *yaml.Node) {
	d.eachPair("http.certificates.", n, func(full string, k, v *yaml.Node) {
		kind, name, _ := strings.Cut(k.Value, ":")
		if !slices.Contains([]string{"uri", "dns", "cn"}, kind) || name == "" || kind == "dns" && name != strings.ToLower(name) {
			d.fail(d.position(k), "http.certificates", "%.100q is not a certificate name: write uri:URI, dns:NAME in lower case, or cn:NAME",
				k.Value)
			return
		}
		var c Certificate
		d.applyFields(full, v, c.settings(full), "a certificate has kind and namespaces")
		switch {
		case c.Kind == "":
			d.fail(d.position(k), full, "its kind is missing: agent or person")
		case len(c.Namespaces) == 0:
			d.fail(d.position(k), full, `its namespaces are missing: a list of names or, for a person, ["*"], which is all`)
		}
		if d.c.HTTP.Certificates == nil {
			d.c.HTTP.Certificates = map[string]Certificate{}
		}
		d.c.HTTP.Certificates[k.Value] = c
	})
}

// settings returns the settings of a certificate; their keys begin with key.
func (c *Certificate) settings(key string) []setting {
	return fieldsOf(nil, key+".", reflect.ValueOf(c).Elem(), false)
}

// checkHTTP validates the settings of HTTP against each other.
func (l *loader) checkHTTP() {
	h := l.c.HTTP
	switch {
	case h.OAuth.Issuer != "" && h.OAuth.Resource == "":
		l.fail(l.c.From("http.oauth.issuer"), "http.oauth.resource", "required with an issuer: the URL of /mcp that clients use")
	case h.OAuth.Issuer == "" && h.OAuth.Resource != "":
		l.fail(l.c.From("http.oauth.resource"), "http.oauth.issuer", "required with a resource: the URL of the token issuer")
	}
	if len(h.Certificates) > 0 && h.ClientCA == "" {
		name := slices.Sorted(maps.Keys(h.Certificates))[0]
		l.fail(l.c.From("http.certificates."+name+".kind"), "http.client_ca", "required with certificates: the file of their authorities")
	}
}

// Template configures the sandboxes of a template of E2B's protocol. Empty fields mean the defaults of runs.
type Template struct{ Backend, Profile, Workspace string }

// backendNames returns the names of the backends.
func backendNames() []string { return []string{"process", "podman", "docker", "kubernetes"} }

// maxTemplate is the maximum length of a template's name.
const maxTemplate = 100

// readTemplates reads the templates by name.
func (d *document) readTemplates(n *yaml.Node) {
	d.eachPair("http.templates.", n, func(full string, k, v *yaml.Node) {
		if k.Value == "" || len(k.Value) > maxTemplate {
			d.fail(d.position(k), "http.templates", "a template's name has 1 to %d bytes", maxTemplate)
			return
		}
		var t Template
		d.applyFields(full, v, t.settings(full), "a template has backend, profile and workspace")
		if d.c.HTTP.Templates == nil {
			d.c.HTTP.Templates = map[string]Template{}
		}
		d.c.HTTP.Templates[k.Value] = t
	})
}

// settings returns the settings of a template; their keys begin with key.
func (t *Template) settings(key string) []setting {
	return []setting{
		{key: key + ".backend", kind: unquotedKind(wordKind(backendNames(), &t.Backend), &t.Backend)},
		{key: key + ".profile", kind: unquotedKind(textKind(&t.Profile), &t.Profile)},
		{key: key + ".workspace", kind: unquotedKind(textKind(&t.Workspace), &t.Workspace)},
	}
}
