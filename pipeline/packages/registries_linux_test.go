package packages

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// secure turns a registry's index into one that wants a password, over TLS with a certificate of
// its own authority, of which it returns the file.
func (r *registry) secure(t *testing.T, password string) string {
	r.password = password
	clear := r.index
	r.index = httptest.NewTLSServer(clear.Config.Handler)
	clear.Close()
	t.Cleanup(r.index.Close)
	name := filepath.Join(t.TempDir(), "ca.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.index.Certificate().Raw})
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// reportedLines is the text of all that an order's caller gets to see.
func reportedLines(r Receipt, err error, lines []string) string {
	return fmt.Sprintf("%+v %v %s", r, err, strings.Join(lines, "\n"))
}

// TestPassword: credentials and certificates of the registry are used outside, and nobody inside
// or behind us sees them.
func TestPassword(t *testing.T) {
	const password = "not/so:secret@all"
	b := newBench(t, Config{Scripts: true})
	stock(b.registry)
	ca := b.secure(t, password)
	clearConfig(t)
	b.nameFiles(t)
	with := strings.Replace(b.index.URL, "https://", "https://someone:not%2Fso:secret%40all@", 1)
	t.Setenv("PIP_INDEX_URL", with+"/simple")
	t.Setenv("PIP_CERT", ca)
	rc := fmt.Sprintf("@team:registry=%s/npm/\ncafile=%s\n//%s/npm/:username=someone\n//%[3]s/npm/:_password=\"${TEST_NPM_PASSWORD}\"\n",
		b.index.URL, ca, strings.TrimPrefix(b.index.URL, "https://"))
	t.Setenv("TEST_NPM_PASSWORD", "bm90L3NvOnNlY3JldEBhbGw=")
	if err := os.WriteFile(os.Getenv("npm_config_userconfig"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	// A second registry, without a password, serves packages without a scope.
	open := newRegistry(t)
	stock(open)
	t.Setenv("npm_config_registry", open.index.URL+"/npm/")
	t.Setenv("npm_config_@more-files:registry", open.fileURL("/"))
	b.node("@team/eager", "1.0.0", map[string]string{"index.js": "module.exports = require('fs').readFileSync(__dirname + '/seen', 'utf8')"},
		map[string]any{"scripts": map[string]string{"postinstall": "(env; cat /workspace/* /proc/*/environ /proc/*/cmdline) >seen " +
			"2>/dev/null; true"}, "hasInstallScript": true})
	for _, o := range []Order{b.order("python", "greet==1.0"), b.order("python", "nosuchpackage"),
		b.order("node", "@team/eager", "greet@1.0.0"), b.order("node", "@team/nosuchpackage")} {
		var lines []string
		o.Progress = func(line string) { lines = append(lines, line) }
		r, err := b.Install(t.Context(), o)
		if err != nil || r.ExitCode != 0 != strings.Contains(o.Packages[0], "nosuch") {
			t.Errorf("%v: exit %d %v %s", o.Packages, r.ExitCode, err, r.Stderr)
		}
		text := reportedLines(r, err, lines)
		for _, secret := range []string{password, "not%2Fso", "secret%40all", "bm90L3NvOnNlY3JldEBhbGw"} {
			if strings.Contains(text, secret) {
				t.Errorf("%v: the password is in %q", o.Packages, text)
			}
		}
	}
	seen := b.run("default", "node", "console.log(require('@team/eager'))")
	if !strings.Contains(seen, "npm") || strings.Contains(seen, "secret") || strings.Contains(seen, "bm90") {
		t.Errorf("the script saw %q", seen)
	}
	b.registry.mu.Lock()
	b.password = "changed"
	b.registry.mu.Unlock()
	r := b.fails(b.order("python", "loud"))
	if !strings.Contains(r.Stderr, "401") || strings.Contains(reportedLines(r, nil, nil), "secret") {
		t.Errorf("a wrong password says %q", r.Stderr)
	}
}

// TestNetrc: pip takes passwords from there, too.
func TestNetrc(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.registry.password = "from-a-file"
	name := filepath.Join(t.TempDir(), "netrc")
	t.Setenv("NETRC", name)
	if err := os.WriteFile(name, []byte("machine other.example login a password b\nmachine 127.0.0.1\n  login me\n  password "+
		"from-a-file\ndefault login x password y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.install(b.order("python", "greet"))
}

// TestLogins: wherever a password may stand, it is found for its registry, and for no other.
func TestLogins(t *testing.T) {
	b := newBench(t, Config{})
	clearConfig(t)
	home := t.TempDir()
	t.Setenv("NETRC", "")
	t.Setenv("HOME", home)
	t.Setenv("TEST_TOKEN", "from-the-environment")
	for name, text := range map[string]string{
		".netrc": "machine A.example login me password \"p w\" machine b.example\n\tlogin you account x\ndefault login z password z\n",
		"userrc": "registry=https://a.example/npm\n; comment\n//a.example/npm/:_authToken = ${TEST_TOKEN}\n//b.example/:_auth='bWU6cDp3'\n" +
			"@c:registry=https://c.example:8443\n//c.example:8443/:username=me\n//c.example:8443/:_password=\"cHc=\"\n//d.example/:username=nobody\n",
		"globalrc": "//e.example/:_authToken=${NOT_SET?}global\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PIP_INDEX_URL", "https://a.example/simple")
	t.Setenv("PIP_EXTRA_INDEX_URL", "https://B.example:8443/x https://u:own@a.example:444/y https://only-a-token@f.example/")
	t.Setenv("npm_config_userconfig", filepath.Join(home, "userrc"))
	t.Setenv("npm_config_globalconfig", filepath.Join(home, "globalrc"))
	t.Setenv("npm_config_//g.example/:_authToken", "by-name")
	for language, all := range map[string]map[string]string{
		"python": {"https://a.example/simple/x": "Basic me:p w", "https://b.example:8443/": "Basic you:",
			"https://a.example:444/y/z": "Basic u:own",
			"https://f.example/":        "Basic only-a-token:", "https://c.example/": "", "https://a.example.b/": ""},
		"node": {"https://a.example/npm/x": "Bearer from-the-environment", "https://a.example/files": "Bearer from-the-environment",
			"https://b.example/":      "Basic me:p:w",
			"https://c.example:8443/": "Basic me:pw", "https://c.example/": "", "https://d.example/": "", "https://e.example/x": "Bearer global",
			"https://g.example/": "Bearer by-name"},
	} {
		set, err := b.settings(t.Context(), b.backend, language)
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range all {
			u, _ := url.Parse(at)
			header := set.authorize(u)
			if pair, is := strings.CutPrefix(header, "Basic "); is {
				text, _ := base64.StdEncoding.DecodeString(pair)
				header = "Basic " + string(text)
			}
			for _, c := range set.credentials {
				header = strings.ReplaceAll(header, c.placeholder, c.value)
			}
			if header != want {
				t.Errorf("%s %s: got %q, want %q", language, at, header, want)
			}
		}
	}
}

// TestCertificate: a registry whose certificate nobody vouches for is not used, unless the
// operator trusts it by name.
func TestCertificate(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.secure(t, "")
	b.configure(t)
	if r := b.fails(b.order("python", "greet")); !strings.Contains(r.Stderr, "certificate") {
		t.Errorf("stderr %q", r.Stderr)
	}
	trusting := benchWith(t, Config{}, b.registry)
	t.Setenv("PIP_TRUSTED_HOST", "127.0.0.1")
	t.Setenv("npm_config_strict_ssl", "false")
	trusting.install(trusting.order("python", "greet"))
	trusting.install(trusting.order("node", "greet"))
}

// TestProxy: the operator's own proxy is used, by its name and password, for hosts that only it can resolve.
func TestProxy(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.filesAt = "http://files.example"
	var mu sync.Mutex
	var via []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		via = append(via, r.Header.Get("Proxy-Authorization")+" "+r.URL.Host)
		mu.Unlock()
		out, _ := http.NewRequest(r.Method, b.index.URL+r.URL.Path, nil)
		if r.URL.Host == "files.example" {
			out, _ = http.NewRequest(r.Method, b.files.URL+r.URL.Path, nil)
		}
		answer, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		io.Copy(w, answer.Body)
	}))
	t.Cleanup(proxy.Close)
	clearConfig(t)
	with := strings.Replace(proxy.URL, "http://", "http://me:hush-hush@", 1)
	t.Setenv("PIP_INDEX_URL", "http://packages.example/simple")
	t.Setenv("PIP_PROXY", with)
	t.Setenv("npm_config_registry", "http://packages.example/npm/")
	b.nameFiles(t)
	t.Setenv("HTTP_PROXY", with)
	for _, language := range []string{"python", "node"} {
		mu.Lock()
		via = nil
		mu.Unlock()
		r := b.install(b.order(language, "greet"))
		if len(via) == 0 || via[0] != "Basic bWU6aHVzaC1odXNo packages.example" {
			t.Errorf("%s: by way of the proxy: %q", language, via)
		}
		if len(r.Hosts) != 2 || r.Hosts[0].Name != "packages.example" || r.Hosts[1].Name != "files.example" ||
			strings.Contains(reportedLines(r, nil, nil), "hush") {
			t.Errorf("%s: %+v", language, r)
		}
	}
}

// tunnel is a proxy that tunnels to one server, whatever the name, and records the names in requests.
func tunnel(t *testing.T, to net.Addr, asked *sync.Map) *httptest.Server {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"), true)
		to, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Error(err)
			return
		}
		w.WriteHeader(http.StatusOK)
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() { io.Copy(to, buffered); to.Close() }() // which may have the first byte
		go func() { io.Copy(client, to); client.Close() }()
	}))
	t.Cleanup(proxy.Close)
	return proxy
}

// TestPublicIndex: nothing but the public index is configured, and its files are at another host, whose name is known.
func TestPublicIndex(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.filesAt = "https://files.pythonhosted.org"
	public := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "files.pythonhosted.org" {
			b.files.Config.Handler.ServeHTTP(w, r)
		} else {
			b.index.Config.Handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(public.Close)
	var asked sync.Map
	clearConfig(t)
	t.Setenv("PIP_INDEX_URL", "https://pypi.org/simple")
	t.Setenv("PIP_TRUSTED_HOST", "pypi.org files.pythonhosted.org")
	t.Setenv("PIP_PROXY", tunnel(t, public.Listener.Addr(), &asked).URL)
	r := b.install(b.order("python", "greet"))
	if len(r.Hosts) != 2 || r.Hosts[0].Name != "pypi.org" || r.Hosts[1].Name != "files.pythonhosted.org" ||
		r.Hosts[1].Reason != "has the files of pip's index-url" {
		t.Errorf("hosts: %+v", r.Hosts)
	}
}

// TestProxyTunnel: the operator's proxy tunnels to a registry with TLS, whose certificate is verified behind it.
func TestProxyTunnel(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	ca := b.secure(t, "")
	b.filesAt = "https://packages.example/files" // where the certificate's other name is not
	var tunnels sync.Map
	proxy := tunnel(t, b.index.Listener.Addr(), &tunnels)
	clearConfig(t)
	t.Setenv("PIP_INDEX_URL", "https://example.com/simple") // as httptest's certificate says
	t.Setenv("PIP_EXTRA_INDEX_URL", "https://packages.example/")
	t.Setenv("PIP_CERT", ca)
	t.Setenv("PIP_PROXY", strings.Replace(proxy.URL, "http://", "http://me:hush-hush@", 1))
	r := b.fails(b.order("python", "tone"))
	if !strings.Contains(r.Stderr, "packages.example:443 has no certificate that can be trusted") ||
		strings.Contains(reportedLines(r, nil, nil), "hush") {
		t.Errorf("stderr %q", r.Stderr)
	}
	for _, name := range []string{"example.com", "packages.example"} {
		if _, ok := tunnels.Load("CONNECT " + name + ":443 Basic bWU6aHVzaC1odXNo"); !ok {
			t.Errorf("no tunnel to %s", name)
		}
	}
}

// TestRedirect: a registry may keep files somewhere else again, whose host nobody names.
func TestRedirect(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	elsewhere := httptest.NewServer(b.files.Config.Handler)
	t.Cleanup(elsewhere.Close)
	b.files.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, named(elsewhere)+r.URL.Path, http.StatusFound)
	})
	for _, language := range []string{"python", "node"} {
		o := b.order(language, "greet")
		o.Egress.Dialer = local()
		r := b.install(o)
		if len(r.Hosts) != 3 || r.Hosts[2].Name != "files.example" {
			t.Errorf("%s: %+v", language, r.Hosts)
		}
	}
}

// TestLinkedHost: a host that only a page links to is not reached, and the operator learns how to name it.
func TestLinkedHost(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	os.Unsetenv("PIP_EXTRA_INDEX_URL")
	os.Unsetenv("npm_config_@files:registry")
	for _, language := range []string{"python", "node"} {
		r := b.fails(b.order(language, "greet"))
		if !strings.Contains(r.Stderr, "localhost:") || !strings.Contains(r.Stderr, "configure that host as a further registry") ||
			b.newFiles() != "" {
			t.Errorf("%s: %s", language, r.Stderr)
		}
	}
}

// TestLocalDirectories: pip may be configured with directories of wheels, with further indexes, and with
// constraints.
func TestLocalDirectories(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	dir := t.TempDir()
	name := b.wheel("local", "1.0", map[string]string{"local.py": "x = 'local'\n"}, "greet")
	if err := os.WriteFile(filepath.Join(dir, name), b.wheels[name], 0o600); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, name), 0o644)
	delete(b.wheels, name)
	empty := newRegistry(t)
	conf := filepath.Join(t.TempDir(), "pip.conf")
	limits := filepath.Join(t.TempDir(), "limits.txt")
	os.WriteFile(limits, []byte("greet<2\n"), 0o600)
	os.WriteFile(conf, []byte("[global]\nindex-url = "+empty.index.URL+"/simple\nextra-index-url =\n  "+empty.index.URL+"/simple/more\n  "+
		b.index.URL+"/simple\n  "+b.fileURL("/")+"\n"+
		"[install]\nfind-links = "+dir+" /nowhere\nconstraint = "+limits+"\n"), 0o600)
	clearConfig(t)
	t.Setenv("PIP_CONFIG_FILE", conf)
	r := b.install(b.order("python", "local"))
	if len(r.Packages) != 3 || r.Packages[0].Hash == "" {
		t.Errorf("packages %+v", r.Packages)
	}
	if sets, _ := b.cachedSets(); sets != 0 {
		t.Errorf("%d sets are cached, want none", sets)
	}
	if got := b.run("default", "python", pyHello+"; import local; print(local.x)"); got != "hello one, friend\nlocal" {
		t.Errorf("got %q", got)
	}
}

// TestDefaultIndex: without any configuration, pip and npm themselves name the registry.
func TestDefaultIndex(t *testing.T) {
	b := newBench(t, Config{})
	clearConfig(t)
	for _, language := range []string{"python", "node"} {
		set, err := b.settings(t.Context(), b.backend, language)
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Registries) != 1 || !strings.HasPrefix(set.Registries[0].URL, "https://") {
			t.Errorf("%s: %+v", language, set.Registries)
		}
	}
}

// TestBundledPip: a Python without pip may still have the wheel of it that new environments get.
func TestBundledPip(t *testing.T) {
	venv := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command("python3", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		hosttest.SkipMissing(t, "venv", string(out))
	}
	t.Setenv("PATH", venv+"/bin:"+os.Getenv("PATH"))
	if exec.Command("python3", "-m", "pip", "--version").Run() == nil {
		t.Fatal("the new environment has a pip")
	}
	b := newBench(t, Config{})
	stock(b.registry)
	b.install(b.order("python", "greet==1.0"))
	if got := b.run("default", "python", pyHello); got != "hello one, friend" {
		t.Errorf("got %q", got)
	}
}

// TestWeakProfile: where no network namespace can be had, nothing can be installed.
func TestLandlockOnly(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	o := b.order("python", "greet")
	o.Profile, o.Require = "landlock", nil
	if _, err := b.Install(t.Context(), o); !errors.As(err, new(*backends.Refusal)) {
		t.Errorf("got %v, want a refusal", err)
	}
	clean(t, b.cfg.Dir)
}
