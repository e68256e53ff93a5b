package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// writeConfig creates a configuration file at its default place, and returns its name and an environment in which it is the
// user's.
func writeConfig(t testing.TB, text string) (name string, env []string) {
	t.Helper()
	dir := t.TempDir()
	name = filepath.Join(dir, "sandboxmcp", "config.yaml")
	if err := os.Mkdir(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name, []string{"HOME=" + filepath.Join(dir, "home"), "XDG_CONFIG_HOME=" + dir}
}

func TestDefaults(t *testing.T) {
	got, err := Load(Options{Env: []string{"HOME=/home/x"}})
	if err != nil {
		t.Fatal(err)
	}
	cores := runtime.GOMAXPROCS(0)
	want := Config{
		Backend: "process", MaxConcurrent: max(cores, 4), MaxQueue: 256, Network: "deny", Vault: []string{"environment", "sealed"},
		StateDir: "/home/x/.local/state/sandboxmcp", SQLitePath: "/home/x/.local/state/sandboxmcp/sandboxmcp.db", Profile: "hardened",
		Limits: Limits{512, 60, 1, 256, 1 << 20, 512},
		Caps:   Limits{8192, 3600, float64(cores), 4096, 64 << 20, 8192},
		Sections: Sections{
			Redact: Redact{"warn"}, Events: Events{WebhookKinds: []string{"*"}}, Egress: Egress{Resolver: "system"},
			Artifacts: Artifacts{1000, true},
			Sessions:  Sessions{64, 1024, 30 * 60, 24 * 60 * 60}, Packages: Packages{MaxMB: 2048}, Approvals: Approvals{600, "user"},
			Validate: Validate{Reject: "never"}, Web: Web{Allow: []string{"*"}}, Keep: Keep{1024, 24}, Pool: true,
			Images: Images{"docker.io/library/python:3.12-slim", "docker.io/library/node:22-slim", "docker.io/library/debian:stable-slim",
				"docker.io/rocker/r-ver:4"},
			Containers: Containers{Pull: "missing"},
			Kubernetes: Kubernetes{Overcommit: 1},
			Host:       Host{TimeoutSeconds: 60},
			HTTP:       HTTP{Page: true, OAuth: OAuth{Namespaces: "namespaces"}},
		},
		Profiles: map[string]Profile{
			"hardened": {[]string{"user", "mount", "pid", "net", "ipc", "uts", "cgroupns", "time", "landlock", "seccomp", "caps", "nnp"},
				"hardened"},
			"landlock": {[]string{"landlock", "seccomp", "caps", "nnp"}, "landlock"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
	if got.Limits.Timeout() != time.Minute {
		t.Errorf("timeout %v, want a minute", got.Limits.Timeout())
	}
	for _, s := range got.Origins() {
		if s.From != "default" || s.Value == "" {
			t.Errorf("%+v", s)
		}
	}
}

const allSettings = `# all of it
backend: podman
max_concurrent: 3
max_queue: 0
network: ask
vault: [memory, environment]
audit: {enabled: on, capture: [code, output], rotate_days: 22, keep_days: 23, push: [/mnt/kept.note]}
state_dir: ~/state
sqlite_path: /var/lib/x.db
profile: mine
limits:
  ram_mb: 100
  timeout_seconds: 1.5
  cpu_cores: 0.5
  processes: 20
  output_bytes: 2048
  disk_mb: 7
caps:
  ram_mb: 200
  timeout_seconds: 20
  cpu_cores: 2
  processes: 30
  output_bytes: 4096
  disk_mb: 70
artifacts: {max_count: 5, withhold: false}
sessions: {per_namespace: 8, total: 9, idle_seconds: 10, lifetime_seconds: 11}
packages: {scripts: true, max_mb: 12, ask: true}
approvals: {timeout_seconds: 30, confirm: root}
validate: {reject_dangerous: high, rules_off: [python-eval]}
keep: {max_mb: 13, hours: 14}
pool: off
host: {enabled: true, allowed: ["@safe", "docker restart *"], blocked: ["git push **"], timeout_seconds: 25, environment: [TZ], read: [/srv], write: [/srv/out]}
http:
  listen: unix:/run/http.sock
  socket_group: web
  tls_cert: /etc/cert.pem
  tls_key: /etc/key.pem
  hosts: [sandbox.example.com, "::1"]
  domain: Box.example.com:8443
  page: off
  proxies: [10.0.0.2, unix]
  origins: ["https://app.example.com"]
  client_ca: /etc/clients.pem
  oauth: {issuer: "https://login.example.com", resource: "https://sandbox.example.com/mcp", audience: "api://sandbox", jwks: "https://login.example.com/keys", namespaces_claim: teams, all_namespaces: everything, scopes: [mcp], person_scope: admin}
  certificates: {"dns:ci.example.com": {kind: agent, namespaces: [ci]}, "cn:Ada Lovelace": {kind: person, namespaces: ["*"]}}
  templates: {data: {backend: podman, profile: landlock, workspace: app}}
redact: {unknown: mask}
events: {webhook: "https://hook.example.com/x", webhook_secret: ops/HOOK, webhook_kinds: [egress.denied]}
egress: {allow: [example.com, "*.example.org:8443"], deny: ["*"], networks: [10.0.0.0/8], local: [3000, 8080], resolver: "10.0.0.2:53"}
images: {python: localhost/sandboxmcp/python, node: "node@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", shell: "registry.example.com:443/a/b:c", r: r-base}
web: {enabled: true, allow: [docs.example.com], searxng: "https://searx.example.com", brave_key: ops/BRAVE, browser: /opt/chrome}
skills: /srv/skills
git_author: Ada Lovelace <ada@example.com>
containers:
  pull: never
  podman: ssh://me@host:22/run/podman.sock
  docker: unix:///run/docker.sock
  binary: /opt/sandboxmcp
  gpus: 0,1
kubernetes:
  kubeconfig: /etc/cluster
  context: prod
  namespace: agents
  image: registry.example.com/sandboxmcp:1
  runtime_class: gvisor
  node_selector: [pool=sandboxes]
  priority_class: low
  service_account: nobody
  overcommit: 33
profiles:
  mine:
    require: [landlock, cgroup]
    layers: landlock
  all-but-names: {}
`

func TestFile(t *testing.T) {
	name, env := writeConfig(t, allSettings)
	got, err := Load(Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Backend: "podman", MaxConcurrent: 3, Network: "ask", Vault: []string{"memory", "environment"},
		Sections: Sections{
			Audit: Audit{alwaysTrue{}, []string{"code", "output"}, 22, 23, []string{"/mnt/kept.note"}}, Redact: Redact{"mask"},
			Events:    Events{"https://hook.example.com/x", "ops/HOOK", []string{"egress.denied"}},
			Artifacts: Artifacts{5, false},
			Sessions:  Sessions{8, 9, 10, 11}, Packages: Packages{true, 12, true}, Approvals: Approvals{30, "root"},
			Validate: Validate{"high", []string{"python-eval"}}, Web: Web{true, []string{"docs.example.com"}, "https://searx.example.com",
				"ops/BRAVE", "/opt/chrome"}, Keep: Keep{13, 14},
			Host: Host{true, []string{"@safe", "docker restart *"}, []string{"git push **"}, 25, []string{"TZ"}, []string{"/srv"},
				[]string{"/srv/out"}},
			Egress: Egress{[]string{"example.com", "*.example.org:8443"}, []string{"*"}, []string{"10.0.0.0/8"}, []int{3000, 8080}, "10.0.0.2:53"},
			HTTP: HTTP{"unix:/run/http.sock", "web", "/etc/cert.pem", "/etc/key.pem", []string{"sandbox.example.com", "::1"}, "box.example.com:8443",
				false, []string{"10.0.0.2", "unix"}, []string{"https://app.example.com"}, "/etc/clients.pem",
				map[string]Certificate{"dns:ci.example.com": {"agent", []string{"ci"}}, "cn:Ada Lovelace": {"person", []string{"*"}}},
				OAuth{"https://login.example.com", "https://sandbox.example.com/mcp", "api://sandbox", "https://login.example.com/keys", "teams",
					"everything", []string{"mcp"}, "admin"}, map[string]Template{"data": {"podman", "landlock", "app"}}},
			Images: Images{"localhost/sandboxmcp/python", "node@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
				"registry.example.com:443/a/b:c", "r-base"},
			Containers: Containers{Pull: "never", Podman: "ssh://me@host:22/run/podman.sock", Docker: "unix:///run/docker.sock",
				Binary: "/opt/sandboxmcp", GPUs: []string{"0", "1"}},
			Kubernetes: Kubernetes{"/etc/cluster", "prod", "agents", "registry.example.com/sandboxmcp:1", "gvisor", []string{"pool=sandboxes"},
				"low", "nobody", 33},
		},
		StateDir: filepath.Join(strings.TrimPrefix(env[0], "HOME="), "state"), SQLitePath: "/var/lib/x.db", File: name, Profile: "mine",
		Skills: "/srv/skills", GitAuthor: "Ada Lovelace <ada@example.com>",
		Limits: Limits{100, 1.5, 0.5, 20, 2048, 7}, Caps: Limits{200, 20, 2, 30, 4096, 70},
		Profiles: builtinProfiles(),
	}
	want.Profiles["mine"] = Profile{[]string{"landlock", "cgroup"}, "landlock"}
	want.Profiles["all-but-names"] = Profile{containmentLayers(), "hardened"}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
	for _, s := range got.Origins() {
		inFile := strings.HasPrefix(s.From, name+":")
		fixed := strings.Contains(s.Key, "hardened") || strings.Contains(s.Key, "profiles.landlock") || strings.Contains(s.Key, "all-but")
		if inFile == fixed {
			t.Errorf("%s is from %s", s.Key, s.From)
		}
		if s.Key == "limits.disk_mb" && s.From != name+":17" {
			t.Errorf("%s is from %s, want line 17", s.Key, s.From)
		}
	}
}

// TestOriginsAreAFile writes the output of Origins into a file and reads the same settings back.
func TestOriginsAreAFile(t *testing.T) {
	_, env := writeConfig(t, allSettings)
	want, err := Load(Options{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	sections := map[string][]string{}
	var oauth []string
	for _, s := range want.Origins() {
		section, key, nested := strings.Cut(s.Key, ".")
		if !nested {
			b.WriteString(s.Key + ": " + s.Value + "\n")
		} else if leaf, deeper := strings.CutPrefix(s.Key, "http.oauth."); deeper {
			oauth = append(oauth, leaf+": "+s.Value)
		} else if section != "profiles" && !strings.HasPrefix(s.Key, "http.certificates.") && !strings.HasPrefix(s.Key, "http.templates.") {
			sections[section] = append(sections[section], "  "+key+": "+s.Value+"\n")
		}
	}
	certificates := allSettings[strings.Index(allSettings, "  certificates:"):strings.Index(allSettings, "redact:")]
	sections["http"] = append(sections["http"], "  oauth: {"+strings.Join(oauth, ", ")+"}\n", certificates)
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		b.WriteString(section + ":\n" + strings.Join(sections[section], ""))
	}
	b.WriteString(allSettings[strings.Index(allSettings, "profiles:"):])
	_, env = writeConfig(t, b.String())
	got, err := Load(Options{Env: env})
	if err != nil {
		t.Fatalf("%v in\n%s", err, &b)
	}
	want.File = got.File
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestSourcesInOrder(t *testing.T) {
	name, env := writeConfig(t, "backend: podman\nmax_concurrent: 3\nlimits: {ram_mb: 300, timeout_seconds: 3}\n")
	env = append(env, "SANDBOXMCP_BACKEND=docker", "SANDBOXMCP_MAX_CONCURRENT=4", "SANDBOXMCP_MAX_RAM_MB=400",
		"SANDBOXMCP_PROFILE=landlock", "SANDBOXMCP_NETWORK=deny", "SANDBOXMCP_VAULT=memory, environment", "SANDBOXMCP_AUDIT=true",
		"SANDBOXMCP_TIMEOUT=", "SANDBOXMCP_SQLITE_PATH=/x/y.db", "SANDBOXMCP_SECRET_BACKENDS=x", "SANDBOXMCP_TEST_REQUIRE=all",
		"SANDBOXMCP_IMAGE_PYTHON=python:3", "SANDBOXMCP_IMAGE_NODE=node", "SANDBOXMCP_IMAGE_SHELL=bash:5", "SANDBOXMCP_IMAGE_R=")
	got, err := Load(Options{Env: env, Flags: map[string]string{"max_concurrent": "5", "profile": "hardened", "limits.processes": "50"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Setting{
		"backend":                {Value: "docker", From: "environment SANDBOXMCP_BACKEND"},
		"max_concurrent":         {Value: "5", From: "flag"},
		"max_queue":              {Value: "256", From: "default"},
		"limits.ram_mb":          {Value: "300", From: name + ":3"},
		"caps.ram_mb":            {Value: "400", From: "environment SANDBOXMCP_MAX_RAM_MB"},
		"limits.timeout_seconds": {Value: "3", From: name + ":3"}, // an empty variable counts as unset
		"limits.processes":       {Value: "50", From: "flag"},
		"profile":                {Value: "hardened", From: "flag"},
		"vault":                  {Value: "[memory, environment]", From: "environment SANDBOXMCP_VAULT"},
		"images.python":          {Value: `"python:3"`, From: "environment SANDBOXMCP_IMAGE_PYTHON"},
		"images.shell":           {Value: `"bash:5"`, From: "environment SANDBOXMCP_IMAGE_SHELL"},
		"images.r":               {Value: `"docker.io/rocker/r-ver:4"`, From: "default"},
		"containers.docker":      {Value: "auto", From: "default"},
		"containers.gpus":        {Value: "none", From: "default"},
		"audit.enabled":          {Value: "on", From: "environment SANDBOXMCP_AUDIT"},
		"sqlite_path":            {Value: "/x/y.db", From: "environment SANDBOXMCP_SQLITE_PATH"},
	}
	for _, s := range got.Origins() {
		if w, ok := want[s.Key]; ok && (w.Value != s.Value || w.From != s.From) {
			t.Errorf("got %+v, want %+v", s, w)
		}
	}
}

func TestPlaces(t *testing.T) {
	cwd, _ := os.Getwd()
	tests := []struct {
		name             string
		o                Options
		state, db, error string
	}{
		{name: "XDG", o: Options{Env: []string{"HOME=/h", "XDG_STATE_HOME=/s"}}, state: "/s/sandboxmcp", db: "/s/sandboxmcp/sandboxmcp.db"},
		{name: "a relative XDG directory is ignored", o: Options{Env: []string{"HOME=/h", "XDG_STATE_HOME=s"}},
			state: "/h/.local/state/sandboxmcp", db: "/h/.local/state/sandboxmcp/sandboxmcp.db"},
		{name: "the last of two", o: Options{Env: []string{"HOME=/a", "HOME=/h"}}, state: "/h/.local/state/sandboxmcp",
			db: "/h/.local/state/sandboxmcp/sandboxmcp.db"},
		{name: "flag, relative", o: Options{Env: []string{"HOME=/h"}, Flags: map[string]string{"sqlite_path": "a/../b.db"}},
			state: "/h/.local/state/sandboxmcp", db: cwd + "/b.db"},
		{name: "flag, home", o: Options{Env: []string{"HOME=/h"}, Flags: map[string]string{"state_dir": "~/s"}}, state: "/h/s",
			db: "/h/s/sandboxmcp.db"},
		{name: "no home, but a place", o: Options{Flags: map[string]string{"state_dir": "/s"}}, state: "/s", db: "/s/sandboxmcp.db"},
		{name: "no home", error: "state_dir: no directory for it: set HOME, XDG_STATE_HOME or state_dir"},
		{name: "relative home", o: Options{Env: []string{"HOME=h"}}, error: "state_dir: no directory for it"},
		{name: "memory", o: Options{Env: []string{"HOME=/h", "SANDBOXMCP_SQLITE_PATH=:memory:"}},
			error: "SANDBOXMCP_SQLITE_PATH: sqlite_path: the database must be a file"},
		{name: "NUL", o: Options{Env: []string{"HOME=/h"}, Flags: map[string]string{"state_dir": "/s\x00"}},
			error: "flag: state_dir: a path can't contain NUL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Load(tt.o)
			if tt.error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.error) {
					t.Errorf("got %v, want %s", err, tt.error)
				}
				return
			}
			if err != nil || got.StateDir != tt.state || got.SQLitePath != tt.db {
				t.Errorf("got %s, %s, %v; want %s, %s", got.StateDir, got.SQLitePath, err, tt.state, tt.db)
			}
		})
	}
}

func TestMaxIsAMaximum(t *testing.T) {
	for _, tt := range []struct {
		name, file, max string
		limit, cap      int64
		error           string
	}{
		{name: "below the default", max: "100", limit: 100, cap: 100},
		{name: "above the default", max: "4096", limit: 512, cap: 4096},
		{name: "stronger than the file's", file: "caps: {ram_mb: 600}\n", max: "400", limit: 400, cap: 400},
		{name: "below the file's default", file: "limits: {ram_mb: 300}\n", max: "200", error: "limits.ram_mb: the default of 300 ("},
		{name: "no number", max: "many", error: "SANDBOXMCP_MAX_RAM_MB: caps.ram_mb: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, env := writeConfig(t, tt.file)
			c, err := Load(Options{Env: append(env, "SANDBOXMCP_MAX_RAM_MB="+tt.max)})
			if tt.error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.error) {
					t.Errorf("got %v, want %s", err, tt.error)
				}
				return
			}
			if err != nil || c.Limits.RAMMB != tt.limit || c.Caps.RAMMB != tt.cap {
				t.Errorf("got %d of at most %d, %v; want %d of %d", c.Limits.RAMMB, c.Caps.RAMMB, err, tt.limit, tt.cap)
			}
		})
	}
}

func TestErrorIsTyped(t *testing.T) {
	name, env := writeConfig(t, "backend: x\n")
	_, err := Load(Options{Env: env})
	if e, ok := errors.AsType[*Error](err); !ok || e.From != name+":1" || e.Key != "backend" {
		t.Errorf("got %#v", err)
	}
}

// TestTags checks that each default is a valid value, and reads back as it is printed.
func TestTags(t *testing.T) {
	for _, s := range newLoader(4, nil).settings {
		was := s.show()
		v := value{words: []string{strings.Trim(was, `"`)}}
		if list, is := strings.CutPrefix(was, "["); is {
			v = value{list: true, words: strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune("\", ]", r) })}
		}
		if strings.HasSuffix(s.key, "_dir") || s.key == "sqlite_path" { // they have no static default
			continue
		}
		if err := s.set(v); err != nil || s.show() != was {
			t.Errorf("%s: %s, then %s, %v", s.key, was, s.show(), err)
		}
	}
}
