package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/witness"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/mcp"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval/notify"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// minFiles is how many descriptors a single run takes, and a few: the log has ten, each sandbox a dozen.
const minFiles = 64

// load returns the configuration as the command line, the environment and the file have it. own are
// flags of the command that take the place of the setting of that name.
func load(c *cli.Context, own ...string) (config.Config, error) {
	if files := maxFiles(); files < minFiles {
		return config.Config{}, exit.Usage(pipeline.MoreFiles, "sandboxmcp may open %d files at once, and needs %d", files, minFiles)
	}
	flags := map[string]string{}
	for _, name := range own {
		if c.IsSet(name) {
			flags[name] = c.String(name)
		}
	}
	if db := c.String("db"); db != "" {
		flags["sqlite_path"] = db
	}
	cfg, err := config.Load(config.Options{File: c.String("config"), Env: os.Environ(), Flags: flags})
	if err == nil {
		err = checkContainers(cfg.Containers)
	}
	if err != nil {
		return cfg, exit.Usage("sandboxmcp config --help", "%v", err)
	}
	return cfg, nil
}

// parts are what runs need, wired together.
type parts struct {
	pipeline  *pipeline.Pipeline
	runs      *pipeline.Pipeline // of a server: for what the command line hands over
	backends  []backends.Backend // the default first
	log       *pendingLog
	packages  *packages.Store  // nil where nothing was ever installed, and nothing can be
	results   *results.Store   // of a server
	cage      *host.Cage       // of commands on the host
	approvals *approval.Broker // of a server, or where people are asked
	notifier  *notify.Notifier // of a server, if it shows questions on a desktop
	bus       *event.Bus       // likewise
	sinks     []sink           // of a server: who is told outside
	places    []witness.Place  // where checkpoints of the log are taken
	signed    chan struct{}    // that there is a new one
}

// purpose is what parts are wired for.
type purpose struct {
	// backend is what a single run asks for; "" is the configured one.
	backend string
	// delegate has systemd asked for a cgroup, if it takes that.
	delegate bool
	// serve is for many runs, sessions and callers who come back.
	serve bool
	// install is for putting packages where later runs, also those of servers, find them.
	install bool
	// ask says that there is a person who can be asked about a single run.
	ask bool
	// local are ports of this machine that the person at the command line opens to a single run.
	local []int
	// results opens the result store of servers.
	results bool
	// progress is told what is done about images of containers; may be nil.
	progress func(line string)
	// log is told when rows of the log stay unsigned; nil is nobody.
	log *slog.Logger
}

// wire puts the parts together.
func wire(ctx context.Context, cfg config.Config, why purpose) (*parts, error) {
	p := &parts{signed: make(chan struct{}, 1)}
	if err := p.wire(ctx, cfg, why); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// wire reads the settings, has a backend begin to make a sandbox, and does what takes longer meanwhile.
func (p *parts) wire(ctx context.Context, cfg config.Config, why purpose) error {
	review, err := review(cfg)
	if err != nil {
		return err
	}
	out, err := egressOf(cfg)
	if err != nil {
		return err
	}
	out.Dialer.Local = append(out.Dialer.Local, why.local...)
	web, err := webOf(cfg, out)
	if err != nil {
		return err
	}
	onHost, err := hostOf(cfg)
	if err != nil {
		return err
	}
	makeDirs(cfg)
	p.cage, p.backends = host.NewCage(why.delegate), backendsOf(cfg, why)
	keys, err := keysOf(cfg)
	if err != nil {
		return err
	}
	if p.places, err = places(cfg); err != nil {
		return err
	}
	p.log = openInBackground(ctx, cfg, keys, why.log, func() {
		select {
		case p.signed <- struct{}{}:
		default:
		}
	})
	onHost.Cage = p.cage
	if err := p.stock(cfg, why); err != nil {
		return err
	}
	what := pipeline.Config{
		Backends:  p.backends,
		Audit:     p.log,
		User:      console.User(),
		Vault:     stores(cfg),
		Bus:       p.bus,
		Queue:     pipeline.NewQueue(cfg.MaxConcurrent, cfg.MaxQueue),
		Temp:      filepath.Join(cfg.StateDir, "tmp"),
		Profile:   cfg.Profile,
		Profiles:  profiles(cfg),
		Limits:    bounds(cfg.Limits),
		Caps:      bounds(cfg.Caps),
		Egress:    out,
		Web:       web,
		Approvals: p.approvals,
		Files:     hostFiles(cfg),
		Keys:      keys,
		Policy:    policy(cfg),
		Version:   version.Current().Version,
		Unknown:   cfg.Redact.Unknown,
		Capture:   pipeline.Capture{Code: slices.Contains(cfg.Audit.Capture, "code"), Output: slices.Contains(cfg.Audit.Capture, "output")},
		Artifacts: artifacts(cfg),
		Sessions:  sessions(cfg),
		Packages:  p.packages,
		AskAbout:  pipeline.AskAbout{Packages: cfg.Packages.Ask},
		Results:   p.results,
		Review:    review,
		Host:      onHost,
		Terms:     terms(why),
		Protected: ownPlaces(cfg),
	}
	p.pipeline = pipeline.New(what)
	if why.serve { // for a person's single run: nobody is asked, approves or listens, no result is kept, and words are the command line's
		what.Bus, what.Approvals, what.Results, what.Terms = nil, nil, nil, nil
		p.runs = pipeline.New(what)
	}
	return nil
}

// makeDirs makes those that no program may see: what comes into being while one runs, such as a server's socket,
// would be in a directory that is not covered.
func makeDirs(cfg config.Config) {
	for _, dir := range []string{cfg.StateDir, socketDir(cfg)} {
		_ = os.MkdirAll(dir, 0o700)
	}
}

// stock opens the directories in which things are kept from one run to the next. A single run shows
// what was installed, and installs nothing.
func (p *parts) stock(cfg config.Config, why purpose) (err error) {
	dir := filepath.Join(cfg.StateDir, "packages")
	if _, there := os.Stat(dir); why.serve || why.install || there == nil {
		p.packages, err = packages.Open(packages.Config{Dir: dir, Scripts: cfg.Packages.Scripts, MaxBytes: cfg.Packages.MaxMB << 20})
	}
	if err == nil && (why.serve || why.ask) {
		p.bus = event.NewBus()
		p.approvals = approval.New(approval.Config{Audit: p.log, Bus: p.bus, Root: why.serve && cfg.Approvals.Confirm == "root", Timeout: time.Duration(cfg.Approvals.TimeoutSeconds) * time.Second, Watch: p.desktop(cfg, why)})
	}
	if err != nil || !why.serve && !why.results {
		return err
	}
	p.results, err = results.Open(results.Config{
		Dir: filepath.Join(cfg.StateDir, "runs"), MaxBytes: cfg.Keep.MaxMB << 20, MaxAge: time.Duration(cfg.Keep.Hours) * time.Hour,
	})
	return err
}

// terms are the words of the caller: an agent sets parameters of tools, not flags.
func terms(why purpose) map[string]string {
	if !why.serve {
		return nil
	}
	return mcp.Terms()
}

func sessions(cfg config.Config) session.Config {
	idle, life := time.Duration(cfg.Sessions.IdleSeconds)*time.Second, time.Duration(cfg.Sessions.LifetimeSeconds)*time.Second
	return session.Config{PerNamespace: cfg.Sessions.PerNamespace, Total: cfg.Sessions.Total, Idle: min(idle, life), MaxIdle: life, Lifetime: life}
}

// review is what the configuration wants of dangerous code. A rule that does not exist is an error:
// it would stay on in silence.
func review(cfg config.Config) (pipeline.Review, error) {
	r := pipeline.Review{Reject: cfg.Validate.Reject, Off: cfg.Validate.RulesOff}
	if r.Reject == "never" {
		r.Reject = ""
	}
	var known []string
	for _, rule := range validate.Rules() {
		known = append(known, rule.Name)
	}
	for _, name := range r.Off {
		if !slices.Contains(known, name) {
			return r, exit.Usage("rules are: "+strings.Join(known, " "), "validate.rules_off: there is no rule %q", name)
		}
	}
	return r, nil
}

// egressOf is what the configuration lets out. A pattern or a network that is not understood is an
// error: it would allow less than the operator means, or deny less.
func egressOf(cfg config.Config) (pipeline.Egress, error) {
	e := pipeline.Egress{Deny: cfg.Egress.Deny, Ask: cfg.Network == "ask", Connections: cfg.Egress.Connections,
		Idle: time.Duration(cfg.Egress.IdleSeconds) * time.Second, Dialer: &egress.Dialer{}}
	const hint = "sandboxmcp config shows where it is set"
	var err error
	if e.Policy, err = egress.NewPolicy(cfg.Egress.Allow, cfg.Egress.Deny); err != nil {
		return e, exit.Usage(hint, "egress: %v", err)
	}
	e.Policy, e.Dialer.Local = e.Policy.WithLocal(cfg.Egress.Local), slices.Clone(cfg.Egress.Local)
	if slices.Contains(e.Policy.Ports(), backends.DNSPort) {
		return e, exit.Usage(hint, "egress.allow: port %d is where each sandbox looks names up: nothing else can be reached on it", backends.DNSPort)
	}
	for _, text := range cfg.Egress.Networks {
		network, err := egress.ParseNetwork(text)
		if err != nil {
			return e, exit.Usage(hint, "egress.networks: %v", err)
		}
		e.Dialer.Networks = append(e.Dialer.Networks, network)
	}
	if cfg.Egress.Resolver != config.System {
		e.Dialer.Resolver = egress.NewResolver(cfg.Egress.Resolver)
	}
	return e, nil
}

// ownPlaces are the files and directories that no program may read or write: what keys, secrets, the log and its rows
// that are on their way to it are in, the configuration in force, and the sockets by which a server obeys; also where these are unless a
// command or the environment says otherwise, as it may for this process and not for a server.
func ownPlaces(cfg config.Config) []string {
	db := cfg.SQLitePath
	places := []string{cfg.StateDir, socketDir(cfg), db, db + "-wal", db + "-shm", db + "-journal", db + "-checkpoint", db + "-checkpoint.new", db + "-segments",
		filepath.Join(backends.RuntimeDir(os.Getenv, os.Getuid()), "sandboxmcp")}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, ".local", "state", "sandboxmcp"))
	}
	if cfg.File != "" { // it need not lie with the user's own
		places = append(places, cfg.File)
	}
	return append(places, configDir()...)
}

// configDir is where the user's own configuration is, if that can be known.
func configDir() []string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(dir, "sandboxmcp")}
}

// Close ends what the parts keep open. What takes a millisecond or two is done at once. It returns why rows
// of the log are not signed, if that is so.
func (p *parts) Close() error {
	if p.approvals != nil {
		p.approvals.Close()
	}
	if p.notifier != nil {
		p.notifier.Close()
	}
	for _, each := range []*pipeline.Pipeline{p.pipeline, p.runs} {
		if each != nil {
			each.Close()
		}
	}
	if p.cage != nil {
		p.cage.Close()
	}
	if p.packages != nil {
		p.packages.Close()
	}
	if p.results != nil {
		p.results.Close()
	}
	var sinks sync.WaitGroup
	for _, t := range p.sinks {
		sinks.Go(t.Close)
	}
	sinks.Wait()
	p.bus.Close()
	var all sync.WaitGroup
	for _, b := range p.backends {
		all.Go(func() { b.Close() })
	}
	var unsigned error
	if p.log != nil {
		all.Go(func() { unsigned = p.log.Close() })
	}
	all.Wait()
	return unsigned
}

// names are what callers call the backends, the default first.
func (p *parts) names() (all []string) {
	for _, b := range p.backends {
		all = append(all, b.Name())
	}
	return all
}

func stores(cfg config.Config) *vault.Vault {
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

func profiles(cfg config.Config) map[string]pipeline.Profile {
	all := map[string]pipeline.Profile{}
	for name, p := range cfg.Profiles {
		all[name] = pipeline.Profile{Base: p.Layers, Require: requires(cfg, name)}
	}
	return all
}

// requires are the layers that a profile insists on; nil, where nobody has written them down, are all that
// the backend promises.
func requires(cfg config.Config, profile string) []string {
	if cfg.From("profiles."+profile+".require") == config.Default {
		return nil
	}
	return append([]string{}, cfg.Profiles[profile].Require...)
}

func artifacts(cfg config.Config) pipeline.ArtifactPolicy {
	return pipeline.ArtifactPolicy{
		MaxCount:    cfg.Artifacts.MaxCount,
		MaxBytes:    cfg.Artifacts.MaxMB << 20,
		ShowSecrets: !cfg.Artifacts.Withhold,
	}
}

func bounds(l config.Limits) pipeline.Bounds {
	return pipeline.Bounds{
		Limits: backends.Limits{
			RAM:       l.RAMMB << 20,
			Wall:      l.Timeout(),
			CPU:       l.CPUCores,
			Processes: int(l.Processes),
			Disk:      l.DiskMB << 20,
		},
		Output: l.OutputBytes,
	}
}

// wired has f do something with parts of this process, which the first signal that asks us to ends, and ends them.
func (p *program) wired(c *cli.Context, cfg config.Config, why purpose, f func(context.Context, *parts) error) error {
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	parts, err := wire(ctx, cfg, why)
	if err != nil {
		return err
	}
	defer func() {
		if err := parts.Close(); err != nil {
			p.Say("warning: %v", err)
		}
	}()
	return f(ctx, parts)
}
