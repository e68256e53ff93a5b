package wiring

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/mcp/e2b"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/page"
)

// ListenHTTP serves h at the configured address. ready returns why the server is not ready, or nil; largest returns the
// maximum size of a request: see door.Config.
func ListenHTTP(ctx context.Context, cfg config.Config, log *slog.Logger, ready func() error, largest func(*http.Request) int64,
	h http.Handler) (*door.Door, error) {
	c := doorConfig(cfg.HTTP)
	c.Handler, c.Ready, c.Log, c.Largest = h, ready, log, largest
	if cfg.HTTP.Page {
		c.Linked = page.IsLinkPath
	}
	return door.Listen(ctx, c)
}

func doorConfig(h config.HTTP) door.Config {
	proxies, _ := door.ParseProxies(h.Proxies) // checkHTTP has parsed them
	return door.Config{Address: h.Listen, Proxies: proxies, Group: h.Group, Cert: h.Cert, Key: h.Key, ClientCA: h.ClientCA,
		Hosts:   slices.Concat(h.Hosts, e2b.Names(h.Domain)),
		Origins: h.Origins, Open: e2b.Open, Apart: func(host string) bool { return e2b.OfPort(host, h.Domain) }}
}

// Identities returns the checker of HTTP clients, by tokens in the state directory, and by the configured certificates
// and issuer.
func Identities(cfg config.Config, log *slog.Logger) *identity.Checker {
	c := identity.Config{Address: doorConfig(cfg.HTTP).Proxies.Client, Tokens: identity.OpenTokens(cfg.StateDir),
		Certificates: certificateGrants(cfg.HTTP), Log: log}
	if o := cfg.HTTP.OAuth; o.Issuer != "" {
		c.OAuth = &identity.OAuth{Issuer: o.Issuer, Resource: o.Resource, Audience: o.Audience, JWKS: o.JWKS, Namespaces: o.Namespaces,
			All: o.All, Scopes: o.Scopes, Person: o.Person}
	}
	return identity.New(c)
}

func certificateGrants(h config.HTTP) map[string]identity.Grant {
	grants := make(map[string]identity.Grant, len(h.Certificates))
	for name, c := range h.Certificates {
		grants[name] = identity.Grant{Kind: identity.Kind(c.Kind), Namespaces: identity.ParseNamespaces(c.Namespaces)}
	}
	return grants
}

// checkHTTP returns an error about settings with which no server can listen, or no client can be identified. Package
// config can't check them.
func checkHTTP(h config.HTTP) error {
	if err := doorConfig(h).Check(); err != nil {
		return fmt.Errorf("http: %w", err)
	}
	if _, err := door.ParseProxies(h.Proxies); err != nil {
		return fmt.Errorf("http.proxies: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Certificates)) {
		if err := certificateGrants(h)[name].Check(); err != nil {
			return fmt.Errorf("http.certificates.%s: %w", name, err)
		}
	}
	for _, address := range [][2]string{{"issuer", h.OAuth.Issuer}, {"jwks", h.OAuth.JWKS}} {
		if address[1] != "" && !identity.SafeURL(address[1]) {
			return fmt.Errorf("http.oauth.%s: without https, an attacker on the network could replace its keys", address[0])
		}
	}
	return nil
}
