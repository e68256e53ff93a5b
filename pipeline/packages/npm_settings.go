package packages

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

//go:embed ask.js
var npmAsk string

// npm installs for Node.
type npm struct{}

// settings implements tool.
func (npm) settings(ctx context.Context, h host) (settings, error) {
	program := beside(filepath.Join(filepath.Dir(h.runtime), "npm"), "npm")
	if program == "" {
		return settings{}, h.lacks("node")
	}
	c, err := h.ask(ctx, "npm", beside(h.runtime, filepath.Join(filepath.Dir(program), "node"), "node"), "-e", npmAsk, program)
	if err != nil {
		return settings{}, err
	}
	var set settings
	for _, l := range c.Logins {
		for _, scheme := range []string{"https:", "http:"} { // the prefix has none, nor its port
			if u, err := url.Parse(scheme + l.Host); err == nil && u.Host != "" {
				set.login(nerf(u), l)
			}
		}
	}
	if err = npmSources(c, &set); err == nil {
		err = set.transport(c)
	}
	if c.Options["strict-ssl"] == "false" {
		set.untrusted = func(string) bool { return true }
	}
	if err != nil {
		return settings{}, fmt.Errorf("read npm's configuration: %w", err)
	}
	return set, nil
}

// npmSources sets the registries, the default one and those of scopes, and npm's configuration file inside.
func npmSources(c configuration, set *settings) error {
	var rc strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		if name != "registry" && !(strings.HasPrefix(name, "@") && strings.HasSuffix(name, ":registry")) {
			continue
		}
		u, err := set.take("npm's "+name, c.Options[name])
		if err != nil {
			return err
		}
		fmt.Fprintf(&rc, "%s = %s\n", name, strconv.Quote(u.String()))
	}
	proxyURL := "http://127.0.0.1:" + strconv.Itoa(proxyPort)
	// npm's own waits of 10 and 60 seconds are for networks that come and go: the gateway is here.
	rc.WriteString("fetch-retry-mintimeout = 500\nfetch-retry-maxtimeout = 1500\n")
	fmt.Fprintf(&rc, "proxy = %s\nhttps-proxy = %s\nnoproxy = \"\"\ncafile = %s\n", proxyURL, proxyURL, backends.TrustFile)
	for _, name := range []string{"before", "min-release-age", "replace-registry-host", "tag", "fetch-retries", "fetch-timeout"} {
		if v := c.Options[name]; v != "" {
			fmt.Fprintf(&rc, "%s = %s\n", name, strconv.Quote(v))
		}
	}
	set.files = map[string]string{"npmrc": rc.String()}
	return nil
}
