package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadFiles checks that each error names the place and the remedy.
func TestBadFiles(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "backend: process\nbackand: podman\n", `:2: backand: unknown key (did you mean "backend"?)`},
		{"unknown nested key", "limits:\n  ram_mb: 1\n  ram: 512\n", `:3: limits.ram: unknown key (did you mean "limits.ram_mb"?)`},
		{"key at the wrong level", "max_ram_mb: 512\n", `:1: max_ram_mb: unknown key (did you mean "limits.ram_mb"?)`},
		{"key with a hyphen", "max-queue: 1\n", `:1: max-queue: unknown key (did you mean "max_queue"?)`},
		{"key with dots", "limits.ram_mb: 512\n", `:1: limits.ram_mb: unknown key`},
		{"nothing like it", "zzzzzzzzzzzz: 1\n", ":1: zzzzzzzzzzzz: unknown key"},
		{"engines that are gone", "web:\n  engines: [mojeek]\n", ":2: web.engines: pages of search engines are no longer read: remove it, and " +
			"set web.searxng or web.brave_key"},
		{"later feature", "cluster:\n  enabled: true\n", ":1: cluster: unknown key"},
		{"duplicate", "backend: process\nnetwork: deny\nbackend: podman\n", ":3: backend: the key is already in line 1"},
		{"duplicate section", "limits: {ram_mb: 9}\nlimits: {ram_mb: 10}\n", ":2: limits: the key is already in line 1"},
		{"bad word", "backend: process\nnetwork: allow\n", `:2: network: "allow" is not known: use "deny"`},
		{"near word", "backend: dokcer\n", `:1: backend: "dokcer" is not known (did you mean "docker"?)`},
		{"number for a word", "backend: 5\n", ":1: backend: expected text, not a number"},
		{"no value", "backend:\n", ":1: backend: expected text, not nothing"},
		{"empty value", "backend: ''\n", ":1: backend: the value is empty"},
		{"list for a word", "backend: [process]\n", ":1: backend: expected one value, not a list"},
		{"mapping for a word", "backend: {a: b}\n", ":1: backend: expected a value, not keys and values"},
		{"word for a number", "max_queue: many\n", ":1: max_queue: expected a number, not text"},
		{"text for a number", "max_queue: '5'\n", ":1: max_queue: expected a number, not text (leave out the quotes)"},
		{"fraction", "max_queue: 1.5\n", ":1: max_queue: 1.5 is not a whole number"},
		{"fraction of MB", "limits: {ram_mb: 100.5}\n", ":1: limits.ram_mb: 100.5 is not a whole number"},
		{"negative", "max_queue: -1\n", ":1: max_queue: -1 is negative"},
		{"zero", "max_concurrent: 0\n", ":1: max_concurrent: 0 is out of range: 1 to 10000"},
		{"too large", "limits:\n\n  ram_mb: 99999999999\n", ":3: limits.ram_mb: 99999999999 is out of range"},
		{"zero is not unlimited", "limits:\n  timeout_seconds: 0\n", ":2: limits.timeout_seconds: 0 is out of range"},
		{"infinite", "limits:\n  timeout_seconds: .inf\n", `:2: limits.timeout_seconds: ".inf" is not a plain decimal number`},
		{"not a number", "limits: {cpu_cores: .nan}\n", `:1: limits.cpu_cores: ".nan" is not a plain decimal number`},
		{"octal", "max_queue: 010\n", `:1: max_queue: "010" is not a plain decimal number`},
		{"hexadecimal", "max_queue: 0x10\n", `:1: max_queue: "0x10" is not a plain decimal number`},
		{"exponent", "max_queue: 1e3\n", `:1: max_queue: "1e3" is not a plain decimal number`},
		{"underscore", "max_queue: 1_000\n", `:1: max_queue: "1_000" is not a plain decimal number`},
		{"duration", "limits: {timeout_seconds: 10s}\n", ":1: limits.timeout_seconds: expected a number, not text"},
		{"audit off", "audit: off\n", ":1: audit.enabled: the audit log can't be switched off"},
		{"audit false", "audit: false\n", ":1: audit.enabled: the audit log can't be switched off"},
		{"audit maybe", "audit: maybe\n", `:1: audit.enabled: "maybe" is neither true nor false`},
		{"author without an address", "git_author: Ada Lovelace\n", `:1: git_author: "Ada Lovelace" is not an author: write one as git does`},
		{"author without a name", "git_author: <ada@example.com>\n", ":1: git_author: "},
		{"two authors", "git_author: Ada <a@example.com> <b@example.com>\n", ":1: git_author: "},
		{"author of two lines", "git_author: \"Ada\\nX <a@example.com>\"\n", ":1: git_author: "},
		{"unknown store", "vault: [environment, keychain]\n",
			`:1: vault: "keychain" is not a secret store: use "environment" or "sealed" or "keyring" or "memory"`},
		{"store twice", "vault: [memory, memory]\n", ":1: vault: store memory is listed twice"},
		{"store of a wrong type", "vault:\n- memory\n- 5\n", ":2: vault: the list in line 3 has a number"},
		{"image with a capital", "images: {python: Python}\n", `:1: images.python: "Python" is not an image reference: names must be lower case`},
		{"image as a URL", "images: {python: 'https://docker.io/python'}\n",
			`:1: images.python: "https://docker.io/python" is not an image reference: leave out`},
		{"image with a space", "images: {r: 'r base'}\n", `:1: images.r: "r base" is not an image reference: write one like`},
		{"image that is an option", "images: {r: '--help'}\n", ":1: images.r: \"--help\" is not an image reference"},
		{"image with half a digest", "images: {r: 'r@sha256:0123'}\n", ":1: images.r: "},
		{"image of no language", "images: {pyhton: a}\n", `:1: images.pyhton: unknown key (did you mean "images.python"?)`},
		{"list of images", "images: {python: [a, b]}\n", ":1: images.python: expected one value, not a list"},
		{"pull", "containers: {pull: always}\n", `:1: containers.pull: "always" is not known: use "missing" or "never"`},
		{"engine by its path", "containers: {docker: /run/docker.sock}\n",
			`:1: containers.docker: "/run/docker.sock" is not an engine address: write one like unix:///run/docker.sock`},
		{"engine with a path of two slashes", "containers: {podman: 'unix://run/podman.sock'}\n",
			`:1: containers.podman: "unix://run/podman.sock" has no absolute path`},
		{"engine without a host", "containers: {docker: 'tcp:///x'}\n", ":1: containers.docker: \"tcp:///x\" names no host"},
		{"engine of another protocol", "containers: {podman: 'https://host'}\n",
			":1: containers.podman: \"https://host\" is not an engine address"},
		{"label without a value", "kubernetes: {node_selector: [team]}\n", `:1: kubernetes.node_selector: "team" is not of the form KEY=VALUE`},
		{"label twice", "kubernetes: {node_selector: [a=1, a=2]}\n", `:1: kubernetes.node_selector: label "a" is listed twice`},
		{"relative binary", "containers: {binary: sandboxmcp}\n", `:1: containers.binary: "sandboxmcp" is relative`},
		{"relative path", "state_dir: state\n", `:1: state_dir: "state" is relative`},
		{"no artifacts at all", "artifacts:\n  max_count: 0\n", "0 is out of range: 1 to"},
		{"results of no size", "keep:\n  max_mb: 0\n", "0 is out of range: 1 to"},
		{"default above its cap", "caps:\n  ram_mb: 100\n", ":2: limits.ram_mb: the default of 512 (default) is above its cap of 100 " +
			"(caps.ram_mb, "},
		{"own default above the cap", "limits:\n  processes: 5000\n", ":2: limits.processes: the default of 5000 ("},
		{"unknown profile", "profile: hardend\n", `:1: profile: unknown profile "hardend" (did you mean "hardened"?)`},
		{"port alone", "http: {listen: '8750'}\n", `:1: http.listen: "8750" is not an address: write one like 127.0.0.1:8750`},
		{"URL to listen at", "http: {listen: 'http://127.0.0.1:8750'}\n", `:1: http.listen: "http://127.0.0.1:8750" is not an address`},
		{"relative socket", "http: {listen: 'unix:http.sock'}\n", `:1: http.listen: "http.sock" is relative`},
		{"certificate without a type", "http:\n  client_ca: /a\n  certificates:\n    ci.example.com: {kind: agent}\n",
			`:4: http.certificates: "ci.example.com" is not a certificate name`},
		{"certificate in capitals", "http:\n  client_ca: /a\n  certificates: {\"dns:CI.example.com\": {kind: agent}}\n",
			`:3: http.certificates: "dns:CI.example.com" is not a certificate name`},
		{"certificate without a kind", "http:\n  client_ca: /a\n  certificates:\n    cn:Ada: {namespaces: [a]}\n",
			":4: http.certificates.cn:Ada: its kind is missing"},
		{"certificate of another kind", "http:\n  client_ca: /a\n  certificates:\n    cn:Ada: {kind: root}\n",
			`:4: http.certificates.cn:Ada.kind: "root" is not known`},
		{"unknown key of a certificate", "http:\n  client_ca: /a\n  certificates:\n    cn:Ada: {kind: person, admin: true}\n",
			":4: http.certificates.cn:Ada.admin: unknown key: a certificate has kind and namespaces"},
		{"certificate twice", "http:\n  client_ca: /a\n  certificates:\n    cn:Ada: {kind: person, namespaces: [a]}\n    cn:Ada: {kind: agent}\n",
			"cn:Ada: the key is already in line 4"},
		{"certificate without namespaces", "http:\n  client_ca: /a\n  certificates:\n    cn:Ada: {kind: person}\n",
			":4: http.certificates.cn:Ada: its namespaces are missing"},
		{"certificate of an empty list", "http:\n  client_ca: /a\n  certificates:\n    cn:Ada: {kind: person, namespaces: []}\n",
			":4: http.certificates.cn:Ada: its namespaces are missing"},
		{"certificates without a CA", "http:\n  certificates:\n    cn:Ada: {kind: person, namespaces: [a]}\n",
			":3: http.client_ca: required with certificates"},
		{"issuer alone", "http:\n  oauth: {issuer: \"https://login.example.com\"}\n", ":2: http.oauth.resource: required with an issuer"},
		{"resource alone", "http:\n  oauth: {resource: \"https://sandbox.example.com/mcp\"}\n",
			":2: http.oauth.issuer: required with a resource"},
		{"built-in profile", "profiles:\n  hardened: {require: none}\n", ":2: profiles.hardened: this profile is built in"},
		{"unknown layer", "profiles:\n  a:\n    require: [pid, seccom]\n",
			`:3: profiles.a.require: unknown layer "seccom" (did you mean "seccomp"?)`},
		{"layer twice", "profiles:\n  a: {require: [pid, pid]}\n", ":2: profiles.a.require: layer pid is listed twice"},
		{"layer that is not built", "profiles:\n  a: {require: [pid], layers: landlock}\n",
			":2: profiles.a.require: layer pid can't be required"},
		{"unknown set", "profiles:\n  a: {layers: none}\n", `:2: profiles.a.layers: "none" is not known: use "hardened" or "landlock"`},
		{"unknown key of a profile", "profiles:\n  a:\n    requires: [pid]\n", `:3: profiles.a.requires: unknown key (did you mean "require"?)`},
		{"name of a profile", "profiles:\n  A b: {}\n", `:2: profiles: "A b" can't be a name`},
		{"profile as a list", "profiles:\n  a: [pid]\n", ":2: profiles.a: expected keys and values, not a list"},
		{"list of sections", "- backend: process\n", ":1: expected keys and values, not a list"},
		{"text", "hello\n", ":1: expected keys and values, not text"},
		{"two documents", "backend: process\n---\nbackend: podman\n", ":2: a second document"},
		{"number as a key", "1: 2\n", ":1: a key must be a plain word, not a number"},
		{"mapping as a key", "? {a: b}\n: c\n", ":1: a key must be a plain word, not keys and values"},
		{"tab", "limits:\n\tram_mb: 5\n", ":2: not valid YAML: "},
		{"unclosed", "vault: [memory\n", "not valid YAML: "},
		{"control character", "backend: \x01\n", "not valid YAML: control characters"},
		{"NUL", "backend: process\x00\n", "not valid YAML: control characters"},
		{"alias", "backend: &a process\nnetwork: *a\n", ":2: network: expected a value, not an alias"},
		{"alias in a list", "backend: &a process\nvault: [*a]\n", ":2: vault: the list in line 2 has an alias"},
		{"merge key", "limits: &a {ram_mb: 9}\ncaps:\n  <<: *a\n", ":3: caps: a key must be a plain word"},
		{"alias as a key", "&a backend: process\n*a : podman\n", ":2: a key must be a plain word, not an alias"},
		{"alias as a section", "limits: &a {ram_mb: 9}\ncaps: *a\n", ":2: caps: expected keys and values, not an alias"},
		{"tag", "backend: !!binary cHJvY2Vzcw==\n", `:1: backend: tags such as "!!binary"`},
		{"own tag", "backend: !include /etc/passwd\n", `:1: backend: tags such as "!include"`},
		{"escapes in a key", "\"\\x1b]0;x\\a\": 1\n", `:1: "\x1b]0;x\x07": unknown key`},
		{"laughs", billionLaughs(), ":2: b: unknown key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, env := writeConfig(t, tt.text)
			c, err := Load(Options{Env: env})
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			if !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant ...%s", err, tt.want)
			}
		})
	}
}

// billionLaughs returns a small file that expands to a billion words.
func billionLaughs() string {
	var b strings.Builder
	b.WriteString("a: &a [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n")
	for c := 'b'; c <= 'k'; c++ {
		b.WriteString(string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 8) + "*" + string(c-1) + "]\n")
	}
	return b.String()
}

// TestSeveralErrors checks that all errors are reported at once, up to a limit.
func TestSeveralErrors(t *testing.T) {
	_, env := writeConfig(t, "backend: x\nfoo: 1\n")
	_, err := Load(Options{Env: append(env, "SANDBOXMCP_TIMEOUT=soon", "SANDBOXMCP_NETWROK=deny"), Flags: map[string]string{"max_queue": "x",
		"nonsense": "1"}})
	for _, want := range []string{
		":1: backend: ", ":2: foo: ", `environment SANDBOXMCP_TIMEOUT: limits.timeout_seconds: "soon" is not a plain decimal number`,
		"environment SANDBOXMCP_NETWROK: unknown variable (did you mean SANDBOXMCP_NETWORK?)", "flag: max_queue: ", "flag: nonsense: ",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	_, env = writeConfig(t, strings.Repeat("x: 1\n", 20_000))
	if _, err := Load(Options{Env: env}); err == nil || strings.Count(err.Error(), "\n") > maxErrors {
		t.Errorf("%d lines of errors", strings.Count(err.Error(), "\n"))
	}
}

// TestDeepFiles reads files with as much of one construct as a file can hold. A hang fails by the test's timeout.
func TestDeepFiles(t *testing.T) {
	for _, atom := range []string{"[", "{a: ", "- ", "? ", "a:\n", "&a ", "!a ", "*a ", "|\n", "# a\n", "a: 1\n", "\"", "--- \n", "a, ", "{",
		"- a\n"} {
		text := strings.Repeat(atom, maxFile/len(atom))
		for _, text := range []string{text, "vault: [" + text[:len(text)-10], "profiles:\n  a:\n    require: " + text[:len(text)-40]} {
			_, env := writeConfig(t, text)
			_, err := Load(Options{Env: env})
			if err != nil && len(err.Error()) > 64<<10 {
				t.Errorf("%q...: an error of %d bytes", text[:30], len(err.Error()))
			}
		}
	}
}

func TestHarmlessFiles(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "---\n...\n", "{}\n", "null\n", "limits:\n", "limits: {}\nprofiles:\n",
		"\ufeffbackend: process\n", "backend: process # comment\r\nnetwork: \"deny\"\r\n", "\"backend\": 'process'\n"} {
		_, env := writeConfig(t, text)
		if _, err := Load(Options{Env: env}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWhichFile(t *testing.T) {
	dir := t.TempDir()
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + filepath.Join(dir, "none")}
	if _, err := Load(Options{Env: env}); err != nil {
		t.Errorf("without a file: %v", err)
	}
	missing := filepath.Join(dir, "missing.yaml")
	if _, err := Load(Options{Env: env, File: missing}); err == nil || !strings.Contains(err.Error(), missing+": no such file") {
		t.Errorf("missing: %v", err)
	}
	// The default below HOME, without XDG_CONFIG_HOME.
	name := filepath.Join(dir, ".config", "sandboxmcp", "config.yaml")
	os.MkdirAll(filepath.Dir(name), 0o700)
	os.WriteFile(name, []byte("backend: podman\n"), 0o600)
	if c, err := Load(Options{Env: env[:1]}); err != nil || c.Backend != "podman" {
		t.Errorf("got %s, %v; want podman", c.Backend, err)
	}
	// A named file replaces it.
	other := filepath.Join(dir, "other.yaml")
	os.WriteFile(other, []byte("max_queue: 1\n"), 0o600)
	if c, err := Load(Options{Env: env[:1], File: other}); err != nil || c.Backend != "process" || c.MaxQueue != 1 {
		t.Errorf("got %s, %d, %v", c.Backend, c.MaxQueue, err)
	}
}

func FuzzFile(f *testing.F) {
	f.Add(allSettings)
	f.Add(billionLaughs())
	f.Add("limits: {ram_mb: 9}\ncaps:\n  <<: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := newLoader(4, []string{"HOME=/h"})
		d := document{loader: l, name: "f", seen: map[string]int{}}
		d.parse([]byte(text))
		l.checkConsistency()
		if len(l.errs) > 0 {
			return
		}
		for _, limit := range l.settings {
			if name, is := strings.CutPrefix(limit.key, "limits."); is {
				most, _ := l.findSetting("caps." + name)
				var lowest float64
				fmt.Sscan(limit.takes, &lowest)
				if n := settingNumber(limit); !(n > 0 && n >= lowest && n <= settingNumber(most)) {
					t.Errorf("%s: %v is not between %v and %v", limit.key, n, lowest, settingNumber(most))
				}
			}
		}
		for name, p := range l.c.Profiles {
			if err := CheckLayers(p.Layers, p.Require); err != nil {
				t.Errorf("profile %s: %v", name, err)
			}
		}
	})
}
