// Package wiring builds the pipeline and its parts from the configuration: backends (backends.go), the log and keys
// (log.go), stores and settings (wire.go, policy.go), and the ways in over HTTP (http.go, api.go). It is the only place
// where the parts are put together.
package wiring

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/audit/witness"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// minFiles and minProcesses are the descriptors, and the processes and threads, that a single run needs, with some
// spare: the log has ten descriptors, each sandbox a dozen; with fewer than 20 threads Go's runtime exits.
const minFiles, minProcesses = 64, 32

// Load returns the configuration from the command line, the environment and the file. own are flags of the command that
// replace the global setting of that name.
func Load(c *cli.Context, own ...string) (config.Config, error) {
	if files := maxFiles(); files < minFiles {
		return config.Config{}, exit.Usage(pipeline.RaiseFileLimit, "sandboxmcp may open %d files at once, and needs %d", files, minFiles)
	}
	if processes := maxProcesses(); processes < minProcesses {
		return config.Config{}, exit.Usage(pipeline.RaiseProcessLimit, "the user may have %d processes at once, and sandboxmcp needs %d",
			processes, minProcesses)
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
		err = cmp.Or(checkContainers(cfg.Containers), checkHTTP(cfg.HTTP))
	}
	if err != nil {
		return cfg, exit.Usage("sandboxmcp config --help", "%v", err)
	}
	return cfg, nil
}

// WithConfig returns the action of a command that needs only the configuration. SIGINT and SIGTERM end its context.
func WithConfig(action func(ctx context.Context, c *cli.Context, cfg config.Config) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		cfg, err := Load(c)
		if err != nil {
			return err
		}
		ctx, stop := command.UntilSignal(c)
		defer stop()
		return action(ctx, c, cfg)
	}
}

// Parts are the pipeline and its dependencies.
type Parts struct {
	Pipeline  *pipeline.Pipeline
	runs      *pipeline.Pipeline // of a server: for runs that the command line hands over
	backends  []backends.Backend // default first
	Log       *pendingLog
	keys      *signer.Keys
	packages  *packages.Store  // nil if nothing is installed and nothing can be
	Results   *results.Store   // of a server
	cage      *host.Cage       // of commands on the host
	Approvals *approval.Broker // of a server, or where people are asked
	bus       *event.Bus       // likewise
	sinks     []sink           // of a server: exporters of events
	Places    []witness.Place  // places for pushed checkpoints
	signed    chan struct{}    // signals a new checkpoint
}

// Purpose selects which parts are built.
type Purpose struct {
	// Backend is the backend that a single run requests; "" is the configured one.
	Backend string
	// Delegate asks systemd for a cgroup, if it is available.
	Delegate bool
	// Serve is for many runs, sessions and returning callers.
	Serve bool
	// Idle is the idle time after which a server drops sandboxes that no run has asked for; 0 is the default of
	// warm.Config.
	Idle time.Duration
	// Install is for installing packages where later runs, including those of servers, find them.
	Install bool
	// Ask means that a person can be asked about a single run.
	Ask bool
	// Local are ports of this machine that the person at the command line opens to a single run.
	Local []int
	// Results opens the result store of servers.
	Results bool
	// Progress receives messages about images of containers; may be nil.
	Progress func(line string)
	// Log receives a message when rows of the log stay unsigned; may be nil.
	Log *slog.Logger
}

// New builds the parts that a purpose needs. The caller closes them.
func New(ctx context.Context, cfg config.Config, why Purpose) (*Parts, error) {
	p := &Parts{signed: make(chan struct{}, 1)}
	if err := p.wire(ctx, cfg, why); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// wire reads the settings, starts preparing a sandbox, and does slow work meanwhile.
func (p *Parts) wire(ctx context.Context, cfg config.Config, why Purpose) error {
	review, err := reviewPolicy(cfg)
	if err != nil {
		return err
	}
	out, err := Egress(cfg)
	if err != nil {
		return err
	}
	out.Dialer.Local = append(out.Dialer.Local, why.Local...)
	web, err := p.webConfig(cfg, out)
	if err != nil {
		return err
	}
	onHost, err := Host(cfg)
	if err != nil {
		return err
	}
	// Files that appear while a program runs, such as a server's socket, would be in a directory that is not covered.
	for _, dir := range []string{cfg.StateDir, SocketDir(cfg)} {
		_ = os.MkdirAll(dir, 0o700)
	}
	removeLeftovers(cfg)
	p.cage, p.backends = host.NewCage(why.Delegate), Backends(cfg, why)
	keys, err := Keys(cfg)
	if err != nil {
		return err
	}
	p.keys = keys
	if p.Places, err = PushPlaces(cfg); err != nil {
		return err
	}
	p.Log = openInBackground(ctx, cfg, keys, why.Log, func() {
		select {
		case p.signed <- struct{}{}:
		default:
		}
	})
	onHost.Cage = p.cage
	if err := p.openStores(cfg, why); err != nil {
		return err
	}
	what := pipeline.Config{
		RecordConfig: pipeline.RecordConfig{
			Keys: keys, Policy: PolicyJSON(cfg), Version: version.Current().Version, User: console.User(), UnknownTokens: cfg.Redact.Unknown,
			Artifacts: artifactPolicy(cfg), Capture: pipeline.Capture{Code: slices.Contains(cfg.Audit.Capture, "code"),
				Output: slices.Contains(cfg.Audit.Capture, "output")},
		},
		Backends:    p.backends,
		Audit:       p.Log,
		Vault:       OpenVault(cfg),
		Bus:         p.bus,
		Queue:       pipeline.NewQueue(cfg.MaxConcurrent, cfg.MaxQueue),
		Temp:        filepath.Join(cfg.StateDir, "tmp"),
		Profile:     cfg.Profile,
		Profiles:    profiles(cfg),
		Limits:      pipelineBounds(cfg.Limits),
		Caps:        pipelineBounds(cfg.Caps),
		Egress:      out,
		Approvals:   p.Approvals,
		Settings:    []any{&web, sessionConfig(cfg), &review, &onHost, workspaceConfig(cfg)},
		Packages:    p.packages,
		AskPackages: cfg.Packages.Ask,
		Results:     p.Results,
		Runtimes:    Runtimes(cfg),
		Data:        dataDirs(cfg),
		Git:         gitIdentity(cfg),
		Protected:   privatePaths(cfg),
		Homes:       HomesDir(cfg),
		Journal:     journalsDir(cfg),
	}
	p.Pipeline = pipeline.New(what)
	if why.Serve { // a person's single run: no questions, listeners or stored results
		what.Bus, what.Approvals, what.Results = nil, nil, nil
		p.runs = pipeline.New(what)
	}
	return nil
}

// PackagesDir returns the directory of installed packages.
func PackagesDir(cfg config.Config) string { return filepath.Join(cfg.StateDir, "packages") }

// openStores opens the stores that persist between runs. A single run mounts installed packages and installs none.
func (p *Parts) openStores(cfg config.Config, why Purpose) (err error) {
	dir := PackagesDir(cfg)
	if _, there := os.Stat(dir); why.Serve || why.Install || there == nil {
		p.packages, err = packages.Open(packages.Config{Dir: dir, Scripts: cfg.Packages.Scripts, MaxBytes: cfg.Packages.MaxMB << 20})
	}
	if err == nil && (why.Serve || why.Ask) {
		p.bus = event.NewBus()
		p.Approvals = approval.New(approval.Config{Audit: p.Log, Bus: p.bus, Root: why.Serve && cfg.Approvals.Confirm == "root",
			Timeout: time.Duration(cfg.Approvals.TimeoutSeconds) * time.Second, Watch: desktopNotifier(why)})
	}
	if err != nil || !why.Serve && !why.Results {
		return err
	}
	p.Results, err = OpenResults(cfg)
	return err
}

// privatePaths returns the files and directories that no program may read or write: those of keys, secrets, the log and
// its pending rows, the configuration in force, and the control sockets; also their defaults, since a command or the
// environment may override them for this process and not for a server.
func privatePaths(cfg config.Config) []string {
	db := cfg.SQLitePath
	places := []string{cfg.StateDir, SocketDir(cfg), db, filepath.Join(backends.RuntimeDir(os.Getenv, os.Getuid()), "sandboxmcp"),
		journalsDir(cfg)}
	for _, suffix := range []string{"-wal", "-shm", "-journal", "-checkpoint", "-checkpoint.new", "-files", "-reserve", "-owed",
		"-acknowledged"} {
		places = append(places, db+suffix)
	}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, ".local", "state", "sandboxmcp"))
	}
	if cfg.File != "" { // it may be outside of the user's own directory
		places = append(places, cfg.File)
	}
	if dir, err := os.UserConfigDir(); err == nil {
		places = append(places, filepath.Join(dir, "sandboxmcp"))
	}
	return places
}

// Close closes all parts, those that take only milliseconds at once. It returns why rows of the log are unsigned, if
// they are.
func (p *Parts) Close() error {
	if p.Approvals != nil {
		p.Approvals.Close()
	}
	for _, each := range []*pipeline.Pipeline{p.Pipeline, p.runs} {
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
	if p.Results != nil {
		p.Results.Close()
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
	if p.Log != nil {
		all.Go(func() { unsigned = p.Log.Close() })
	}
	all.Wait()
	return unsigned
}

// Names returns the names of the backends, the default first.
func (p *Parts) Names() (all []string) {
	for _, b := range p.backends {
		all = append(all, b.Name())
	}
	return all
}

// journalsDir returns the directory in which processes that write to a log list their unfinished runs.
func journalsDir(cfg config.Config) string { return cfg.SQLitePath + "-running" }

// RestoreKind is part of the names of directories beside the state directory in which backups are verified. They hold
// keys and secrets.
const RestoreKind = "restore"

// removeLeftovers removes leftovers of killed processes in the runtime directory and beside the state directory.
func removeLeftovers(cfg config.Config) {
	statefile.RemoveUnlocked(filepath.Dir(cfg.StateDir), RestoreKind)
	container.RemoveDeadRuns(cfg.StateDir)
	control.RemoveLeft(SocketDir(cfg))
}

// recordCrashes adds the rows that killed processes owe to the log, and removes their leftovers. A run that is handed
// over to a server starts no process that would do so.
func (p *Parts) recordCrashes(cfg config.Config) func(context.Context) {
	return func(ctx context.Context) {
		removeLeftovers(cfg)
		pipeline.RecordCrashes(ctx, p.Log, journalsDir(cfg), nil)
	}
}

// SocketDir returns the directory of the sockets of this user's servers.
func SocketDir(cfg config.Config) string {
	return control.Dir(os.Getenv("XDG_RUNTIME_DIR"), cfg.StateDir)
}

// WithParts calls f with parts of this process and closes them afterwards. Signals end the context of f.
func WithParts(s *command.Streams, c *cli.Context, cfg config.Config, why Purpose, f func(context.Context, *Parts) error) error {
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	parts, err := New(ctx, cfg, why)
	if err != nil {
		return err
	}
	defer func() {
		if err := parts.Close(); err != nil {
			s.Messagef("warning: %v", err)
		}
	}()
	return f(ctx, parts)
}

// OpenResults opens the result store of servers.
func OpenResults(cfg config.Config) (*results.Store, error) {
	return results.Open(results.Config{Dir: ResultsDir(cfg), MaxBytes: cfg.Keep.MaxMB << 20,
		MaxAge: time.Duration(cfg.Keep.Hours) * time.Hour})
}

// ChangesDir returns the directory of change sets.
func ChangesDir(cfg config.Config) string { return filepath.Join(cfg.StateDir, "changes") }

// HomesDir returns the directory of the homes of agents.
func HomesDir(cfg config.Config) string { return filepath.Join(cfg.StateDir, "agents") }

// ResultsDir returns the directory of the result store.
func ResultsDir(cfg config.Config) string { return filepath.Join(cfg.StateDir, "runs") }
