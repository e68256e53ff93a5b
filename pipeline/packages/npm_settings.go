package packages

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// npm installs for Node.
type npm struct{}

// missing implements tool.
func (npm) missing() error {
	return backends.Refuse("the Node that runs programs has no npm beside it", "install it: apt install npm, dnf install npm, apk add npm")
}

// missingIn implements tool.
func (npm) missingIn(backend string) error { return notInImage(backend, "node", "npm") }

// settings implements tool.
func (n npm) settings(ctx context.Context, h host) (settings, error) {
	program := beside(filepath.Join(filepath.Dir(h.runtime), "npm"), "npm")
	if program == "" {
		return settings{}, h.lacks("npm", n.missing())
	}
	out, err := h.run(ctx, program, "config", "list", "--json")
	if err != nil {
		return settings{}, fmt.Errorf("ask npm for its configuration: %w", err)
	}
	var c npmConfig
	if err := json.Unmarshal(out, &c); err != nil {
		return settings{}, fmt.Errorf("read npm's configuration: %w", err)
	}
	var set settings
	for _, step := range []func(*settings) error{c.credentials, c.sources, c.transport} {
		if err := step(&set); err != nil {
			return settings{}, fmt.Errorf("read npm's configuration: %w", err)
		}
	}
	return set, nil
}

// npmConfig is the output of npm config list --json: all settings but credentials, which npm leaves out.
type npmConfig map[string]any

// text returns a value as npm would read it from a file; lists have a line for each item.
func (c npmConfig) text(name string) string {
	switch v := c[name].(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var all []string
		for _, one := range v {
			if s, ok := one.(string); ok {
				all = append(all, s)
			}
		}
		return strings.Join(all, "\n")
	}
	return ""
}

// sources sets the registries, the default one and those of scopes, and npm's configuration file inside.
func (c npmConfig) sources(set *settings) error {
	var rc strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if name != "registry" && !(strings.HasPrefix(name, "@") && strings.HasSuffix(name, ":registry")) {
			continue
		}
		u, err := set.take("npm's "+name, c.text(name))
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
		if v := c.text(name); v != "" {
			fmt.Fprintf(&rc, "%s = %s\n", name, strconv.Quote(v))
		}
	}
	set.files = map[string]string{"npmrc": rc.String()}
	return nil
}

// transport sets the proxy and the certificates by which the registries are reached.
func (c npmConfig) transport(set *settings) error {
	except := strings.ReplaceAll(c.text("noproxy"), "\n", ",")
	if err := set.viaProxy("npm's proxy", c.text("proxy"), cmp.Or(c.text("https-proxy"), c.text("proxy")), except); err != nil {
		return err
	}
	if name := c.text("cafile"); name != "" {
		set.roots = x509.NewCertPool()
		if err := addRoots(set.roots, name); err != nil {
			return fmt.Errorf("npm's cafile: %w", err)
		}
	} else if pem := c.text("ca"); pem != "" {
		set.roots = x509.NewCertPool()
		set.roots.AppendCertsFromPEM([]byte(pem))
	} else if name := os.Getenv("NODE_EXTRA_CA_CERTS"); name != "" {
		var err error
		if set.roots, err = x509.SystemCertPool(); err != nil {
			return err
		}
		if err := addRoots(set.roots, name); err != nil {
			return fmt.Errorf("NODE_EXTRA_CA_CERTS: %w", err)
		}
	}
	if cert, key := c.text("cert"), c.text("key"); cert != "" && key != "" {
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			return fmt.Errorf("npm's cert and key: %w", err)
		}
		set.client = append(set.client, pair)
	}
	if c.text("strict-ssl") == "false" {
		set.untrusted = func(string) bool { return true }
	}
	return nil
}

// credentials reads them where npm does: the user's and the global file, and the environment.
func (c npmConfig) credentials(set *settings) error {
	found := map[string]map[string]string{} // by "//host/path/", then by name
	note := func(name, value string) {
		i := strings.LastIndex(name, ":")
		if !strings.HasPrefix(name, "//") || i < 0 {
			return
		}
		prefix := name[:i]
		if found[prefix] == nil {
			found[prefix] = map[string]string{}
		}
		found[prefix][name[i+1:]] = value
	}
	for _, name := range []string{c.text("globalconfig"), c.text("userconfig")} {
		f, err := os.Open(name)
		if err != nil {
			continue // most have none
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), "="); ok {
				note(strings.TrimSpace(name), fromEnvironment(unquote(strings.TrimSpace(value))))
			}
		}
		f.Close()
	}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if len(name) > len("npm_config_") && strings.EqualFold(name[:len("npm_config_")], "npm_config_") {
			note(name[len("npm_config_"):], value)
		}
	}
	for prefix, c := range found {
		for _, scheme := range []string{"https", "http"} { // the prefix has none, nor its port
			if u, err := url.Parse(scheme + ":" + prefix); err == nil && u.Host != "" {
				set.npmLogin(nerf(u), c)
			}
		}
	}
	return nil
}

// npmLogin adds one registry's credentials. Of several, a token comes first. Incomplete ones are left out.
func (s *settings) npmLogin(prefix string, c map[string]string) {
	password, _ := base64.StdEncoding.DecodeString(c["_password"])
	name, text := c["username"], string(password)
	if pair, err := base64.StdEncoding.DecodeString(c["_auth"]); err == nil && len(pair) > 0 {
		name, text, _ = strings.Cut(string(pair), ":")
	}
	switch {
	case c["_authToken"] != "":
		placeholder := rand.Text()
		s.bind(prefix, "Bearer "+placeholder, placeholder, c["_authToken"])
	case c["_auth"] != "" || name != "" && text != "":
		s.login(prefix, name, text)
	}
}

// unquote returns a value of an ini file without its quotes.
func unquote(s string) string {
	var text string
	if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	if len(s) > 1 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	return s
}

// variable matches a reference to an environment variable in npm's files: ${NAME} or ${NAME?}.
var variable = lazy.Regexp(`\$\{([^}?]+)\??\}`)

// fromEnvironment replaces references to environment variables; one that is not set becomes "".
func fromEnvironment(s string) string {
	return variable().ReplaceAllStringFunc(s, func(ref string) string {
		return os.Getenv(variable().FindStringSubmatch(ref)[1])
	})
}
