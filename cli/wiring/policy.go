package wiring

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/setup"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/mcp/e2b"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	pages "github.com/sandboxmcp/sandboxmcp/pipeline/web"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// seeConfigHint is the hint for an invalid setting.
const seeConfigHint = "sandboxmcp config shows where it is set"

// PolicyJSON returns the operator's policy as JSON. Equal policies have equal texts, so that its SHA-256, which receipts
// contain, identifies it. It excludes storage places and receivers of events.
func PolicyJSON(cfg config.Config) []byte {
	elsewhere := []string{"state_dir", "sqlite_path", "events."}
	all := map[string]string{}
	for _, s := range cfg.Origins() {
		if !slices.ContainsFunc(elsewhere, func(key string) bool { return strings.HasPrefix(s.Key, key) }) {
			all[s.Key] = s.Value
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(all) // a map of texts, whose keys it sorts
	return b.Bytes()
}

func sessionConfig(cfg config.Config) *session.Config {
	idle, life := time.Duration(cfg.Sessions.IdleSeconds)*time.Second, time.Duration(cfg.Sessions.LifetimeSeconds)*time.Second
	identity := max(cfg.Sessions.Total/4, cfg.Sessions.PerNamespace) // one caller, who may work in all namespaces, must leave room for others
	return &session.Config{PerNamespace: cfg.Sessions.PerNamespace, PerIdentity: identity, Total: cfg.Sessions.Total, Idle: min(idle, life),
		MaxIdle: life, Lifetime: life}
}

// reviewPolicy returns the policy for dangerous code. An unknown rule is an error: otherwise the rule that was meant would
// stay on silently.
func reviewPolicy(cfg config.Config) (run.Review, error) {
	r := run.Review{Reject: cfg.Validate.Reject, Off: cfg.Validate.RulesOff}
	if r.Reject == "never" {
		r.Reject = ""
	}
	for _, name := range r.Off {
		var known []string
		for _, rule := range validate.Rules() {
			known = append(known, rule.Name)
		}
		if !slices.Contains(known, name) {
			return r, exit.Usage("rules are: "+strings.Join(known, " "), "validate.rules_off: unknown rule %q", name)
		}
	}
	return r, nil
}

// Egress returns the configured network policy. An invalid pattern or network is an error: the policy would allow or
// deny less than the operator means.
func Egress(cfg config.Config) (pipeline.Egress, error) {
	e := pipeline.Egress{Deny: cfg.Egress.Deny, Ask: cfg.Network == "ask", Dialer: &egress.Dialer{}}
	var err error
	if e.Policy, err = egress.NewPolicy(cfg.Egress.Allow, cfg.Egress.Deny); err != nil {
		return e, exit.Usage(seeConfigHint, "egress: %v", err)
	}
	e.Policy, e.Dialer.Local = e.Policy.WithLocal(cfg.Egress.Local), slices.Clone(cfg.Egress.Local)
	if slices.Contains(e.Policy.Ports(), backends.DNSPort) {
		return e, exit.Usage(seeConfigHint, "egress.allow: port %d is reserved for name lookups in sandboxes", backends.DNSPort)
	}
	for _, text := range cfg.Egress.Networks {
		network, err := egress.ParseNetwork(text)
		if err != nil {
			return e, exit.Usage(seeConfigHint, "egress.networks: %v", err)
		}
		e.Dialer.Networks = append(e.Dialer.Networks, network)
	}
	if cfg.Egress.Resolver != config.System {
		e.Dialer.Resolver = egress.NewResolver(cfg.Egress.Resolver)
	}
	return e, nil
}

// Host returns the policy for commands and files of the host. An invalid rule is an error even while host access is
// off: it would allow or block something else than the operator means.
func Host(cfg config.Config) (host.Config, error) {
	h := cfg.Host
	policy, err := host.NewPolicy(host.Rules{Allowed: h.Allowed, Blocked: h.Blocked, Read: h.Read, Write: h.Write})
	if err != nil {
		return host.Config{}, exit.Usage(seeConfigHint, "host.%v", err)
	}
	if err := host.CheckEnvironment(h.Environment); err != nil {
		return host.Config{}, exit.Usage(seeConfigHint, "host.environment: %v", err)
	}
	place := setup.ThisMachine() // without a home, private files are recognised by name only
	return host.Config{Enabled: h.Enabled, Policy: policy, Timeout: time.Duration(h.TimeoutSeconds) * time.Second,
		Environment: h.Environment, Home: place.Home, Obeyed: setup.Files(place)}, nil
}

func gitIdentity(cfg config.Config) pipeline.GitIdentity {
	name, email := config.SplitAuthor(cfg.GitAuthor)
	return pipeline.GitIdentity{Name: name, Email: email}
}

func profiles(cfg config.Config) map[string]pipeline.Profile {
	all := map[string]pipeline.Profile{}
	for name, p := range cfg.Profiles {
		all[name] = pipeline.Profile{Base: p.Layers, Require: Requires(cfg, name)}
	}
	return all
}

// Requires returns the layers that a profile requires. Nil, if the configuration lists none, means all layers that the
// backend promises.
func Requires(cfg config.Config, profile string) []string {
	if cfg.From("profiles."+profile+".require") == config.Default {
		return nil
	}
	return append([]string{}, cfg.Profiles[profile].Require...)
}

func artifactPolicy(cfg config.Config) pipeline.ArtifactPolicy {
	// One run's files displace at most half of the stored files of others.
	return pipeline.ArtifactPolicy{MaxCount: cfg.Artifacts.MaxCount, MaxBytes: cfg.Keep.MaxMB << 20 / 2, ShowSecrets: !cfg.Artifacts.Withhold}
}

// Templates returns the templates of E2B's protocol, by name.
func Templates(cfg config.Config) map[string]e2b.Template {
	all := map[string]e2b.Template{}
	for name, t := range cfg.HTTP.Templates {
		all[name] = e2b.Template(t)
	}
	return all
}

// Runtimes returns the operator's own languages.
func Runtimes(cfg config.Config) (all []pipeline.Runtime) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Runtimes)) {
		r := cfg.Runtimes[name]
		all = append(all, pipeline.Runtime{Name: name, Extensions: r.Extensions, Command: r.Command, Compile: r.Compile, Check: r.Check,
			Kernel: r.Kernel, Driver: r.Source})
	}
	return all
}

// dataDirs returns the directories that runs may request, by name. It includes the skills, unless the name is taken.
func dataDirs(cfg config.Config) map[string]string {
	all := map[string]string{}
	if cfg.Skills != "" {
		all["skills"] = cfg.Skills
	}
	maps.Copy(all, cfg.Data)
	return all
}

// workspaceConfig returns the store of change sets, and the directories that agents may work in.
func workspaceConfig(cfg config.Config) *workspace.Config {
	c := &workspace.Config{Dir: ChangesDir(cfg), Named: map[string]workspace.Named{}}
	for name, w := range cfg.Workspaces {
		c.Named[name] = workspace.Named{Name: name, Path: w.Path, Changes: workspace.Policy(w.Changes), For: w.Namespaces}
	}
	return c
}

// MaxTime is the maximum time limit of a run.
func MaxTime(cfg config.Config) time.Duration { return pipelineBounds(cfg.Caps).Wall }

func pipelineBounds(l config.Limits) pipeline.Bounds {
	return pipeline.BoundsOf(pipeline.Limits{RAM: l.RAMMB, CPU: l.CPUCores, Wall: l.TimeoutSeconds, Processes: int(l.Processes),
		Output: l.OutputBytes, Disk: l.DiskMB})
}

// webConfig returns the policy and the clients of the web tools, which use the dialer for outgoing connections.
func (p *Parts) webConfig(cfg config.Config, out pipeline.Egress) (w pages.Config, err error) {
	if !cfg.Web.Enabled {
		return w, nil
	}
	if slices.Equal(cfg.Web.Allow, []string{"*"}) {
		w.Policy, err = egress.PublicWeb(cfg.Egress.Deny)
	} else {
		w.Policy, err = egress.NewPolicy(cfg.Web.Allow, cfg.Egress.Deny)
	}
	if err != nil {
		return w, exit.Usage(seeConfigHint, "web.allow: %v", err)
	}
	w.Policy = w.Policy.WithLocal(cfg.Egress.Local)
	if w.Engines, err = web.NewEngines(web.EngineConfig{
		SearXNG: cfg.Web.SearXNG, BraveKey: p.secret(cfg, cfg.Web.BraveKey, "web_search"), Policy: w.Policy, Deny: cfg.Egress.Deny,
	}); err != nil {
		return w, exit.Usage(seeConfigHint, "web: %v", err)
	}
	w.Client = web.NewClient(web.Config{Dialer: out.Dialer, Roots: out.Roots, Version: version.Current().Version})
	w.Browser, w.Authorities = cfg.Web.Browser, browser.Authorities
	w.Reader, err = readerProgram()
	return w, err
}

// readerProgram returns the program that parses pages in a sandbox: sandboxmcp itself, or "" without process sandboxes.
func readerProgram() (string, error) {
	if runtime.GOOS != "linux" {
		return "", nil
	}
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return "", exit.Fail("start sandboxmcp again", "the sandboxmcp program, which reads web pages in a sandbox, is missing: %v", err)
	}
	return program, nil
}

// OpenVault returns the vault with the configured stores.
func OpenVault(cfg config.Config) *vault.Vault {
	var all []vault.Store
	for _, name := range cfg.Vault {
		switch name {
		case "environment":
			all = append(all, vault.Environment())
		case "sealed":
			all = append(all, vault.NewSealed(cfg.StateDir, nil))
		case "keyring":
			all = append(all, vault.Keyring(cfg.StateDir))
		case "memory":
			all = append(all, vault.NewMemory())
		}
	}
	return vault.New(all...)
}
