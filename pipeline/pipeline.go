// Package pipeline performs effects for callers, one at a time: every program, page, package and host command passes
// through Do.
//
// request -> validate -> queue -> vault -> egress -> backend -> sign -> redact -> audit -> result
//
// Here sign hashes the artifacts; the receipt is signed after the redaction, with the row of the run's end.
//
// Its promises: a run's start is in the audit log before its program begins, and start and end are durable before its
// result is returned; secrets are removed from all text before it is cut, logged or returned; if the host can't
// provide a layer that policy requires, the program does not run; and when Do returns, nothing of the run is left.
//
// An effect has a subject, which its rows are about. Its plan decides and has no effect itself; the resulting action is
// acquired, started, performed, sealed and finished by Do. Each effect is defined by the package of its subject: run
// (programs and cells), session, inside (files, processes and ports of a session), host, web, install. Package
// containment has the code that they share about a planned sandbox. This package has the code that all effects share:
// the queue, rows, redaction, receipts, the journal of running effects, and the outcome.
//
// A file calls only files behind it in this order: pipeline, effect, running, limits, run, output, receipt, refuse,
// counters, record, outcome, journal, error, queue, egress, caller, scrub, redactor, stop, unknown.
package pipeline

import (
	"cmp"
	"context"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Pipeline runs requests. All methods may be called concurrently.
type Pipeline struct {
	Config          Config
	NamespaceLimits namespaceLimits
	Active          registry
	going           sync.WaitGroup // goroutines that Close waits for
	parts           sync.Map       // state of packages with effects, by type: see PackageState
	mu              sync.Mutex
	closers         []func()
	closed          bool
	leasesOf        atomic.Pointer[func(namespace, session string) vault.Leases] // leases of a session; nil until SetSessionLeases
	Journal         *Journal
	Counters        *counters
	Budget          *egress.Budget
	policy          string // SHA-256 of Config.Policy
}

// Config holds the parts and the settings of a pipeline.
type Config struct {
	Backends []backends.Backend // the first is the default
	Audit    Recorder           // without one, every run is refused
	Vault    *vault.Vault       // nil has no secrets
	Bus      *event.Bus         // nil: without listeners
	Queue    *Queue             // nil: defaultSlots slots, DefaultQueueRoom places

	Profile  string             // the default; "" is "hardened"
	Profiles map[string]Profile // nil: those of the backends, with all layers that they promise
	Limits   Bounds             // of a run that sets none; zero fields are DefaultBounds
	Caps     Bounds             // maximum of a run's own limits; zero fields are DefaultCaps

	Egress    Egress
	Approvals *approval.Broker // asks people; nil can't ask

	RecordConfig
	// our files and directories that programs may neither read nor write: the log, keys, the configuration. Backends
	// know them too
	Protected []string

	Homes string // directory of ours for the homes of agents, each of which one run may have; "" is none

	Packages    *packages.Store   // nil refuses installs
	AskPackages bool              // a person must approve installs
	Results     *results.Store    // nil stores no results
	Data        map[string]string // host directories that callers can mount, by name
	Git         GitIdentity       // of commits in sandboxes
	Runtimes    []Runtime         // languages of the operator

	// Settings are the settings of packages with effects, such as *web.Config. A package without an entry is off, or
	// uses its defaults.
	Settings []any

	// Journal is our directory beside the log, in which processes list their running effects, so that the end of a
	// killed process is recorded too; "" keeps no journal.
	Journal string

	// Temp is our directory for files that are mounted while a sandbox starts; leftovers of killed processes are
	// removed. "" is os.TempDir, which all users share and which is not cleaned.
	Temp string
}

// RecordConfig are the settings of receipts, rows and results.
type RecordConfig struct {
	Keys          *signer.Keys // sign a receipt of each run; nil signs none
	Policy        []byte       // the operator's configuration; receipts contain its SHA-256
	Version       string       // our version, for receipts
	User          string       // user of the operating system that runs us; "" is unknown
	UnknownTokens string       // handling of tokens that are not in the vault: UnknownWarn, UnknownMask or UnknownOff
	Capture       Capture
	Artifacts     ArtifactPolicy
}

// Recorder is the audit log. When Append returns without an error, the entries are durable or, if all entries have
// Soon, at least in the log. Append may be called concurrently.
type Recorder = approval.Recorder

// Profile is an operator's named requirement for containment.
type Profile struct {
	Base    string   // the backend's own profile: "hardened" or "landlock"
	Require []string // a run without these layers is refused; nil: all that the backend promises
}

// ArtifactPolicy bounds the artifacts that are returned.
type ArtifactPolicy struct {
	MaxCount int   // files; 0 is the count of DefaultArtifacts
	MaxBytes int64 // of all artifacts of a run; 0 is the bytes of DefaultArtifacts
	// ShowSecrets returns artifacts even if they contain a leased secret.
	ShowSecrets bool
}

// DefaultArtifacts applies if the operator sets no bounds.
var DefaultArtifacts = ArtifactPolicy{MaxCount: 1000, MaxBytes: 512 << 20}

// DefaultQueueRoom is the number of runs that may wait if the operator sets none.
const DefaultQueueRoom = 256

// New returns a pipeline with the settings of cfg.
func New(cfg Config) *Pipeline {
	cfg.Limits, cfg.Caps = cfg.Limits.Or(DefaultBounds), cfg.Caps.Or(DefaultCaps)
	cfg.Queue = cmp.Or(cfg.Queue, NewQueue(defaultSlots(runtime.GOMAXPROCS(0)), DefaultQueueRoom))
	if cfg.Vault == nil {
		cfg.Vault = vault.New()
	}
	cfg.Profile = cmp.Or(cfg.Profile, "hardened")
	if cfg.Profiles == nil {
		cfg.Profiles = map[string]Profile{
			"hardened": {Base: "hardened"},
			"landlock": {Base: "landlock", Require: []string{}},
		}
	}
	cfg.Artifacts.MaxCount = cmp.Or(max(cfg.Artifacts.MaxCount, 0), DefaultArtifacts.MaxCount)
	cfg.Artifacts.MaxBytes = cmp.Or(max(cfg.Artifacts.MaxBytes, 0), DefaultArtifacts.MaxBytes)
	p := &Pipeline{Config: cfg, Counters: &counters{Began: time.Now().UTC(), Runs: map[string]map[string]int64{}}, Budget: egress.NewBudget(),
		policy: Hash(cfg.Policy)}
	p.NamespaceLimits.each, p.Active.Effects = map[string]Bounds{}, map[string]*ActiveEffect{}
	if log, can := cfg.Audit.(crashLog); can && cfg.Journal != "" {
		p.going.Go(func() { RecordCrashes(context.Background(), log, cfg.Journal, p.PublishEvent) })
	}
	p.Journal = &Journal{dir: cfg.Journal, open: map[string]string{}}
	return p
}

// Close ends all running effects, sessions with their programs and background runs included, and waits for them.
func (p *Pipeline) Close() {
	p.mu.Lock()
	closers := p.closers
	p.closed = true
	p.mu.Unlock()
	for _, closePart := range slices.Backward(closers) {
		closePart()
	}
	p.going.Wait()
	p.Journal.Close()
}

// Go calls f in a goroutine that Close waits for.
func (p *Pipeline) Go(f func()) { p.going.Go(f) }

// OnClose registers f for Close, which calls the functions in reverse order. After Close, OnClose calls f at once.
func (p *Pipeline) OnClose(f func()) {
	p.mu.Lock()
	closed := p.closed
	p.closers = append(p.closers, f)
	p.mu.Unlock()
	if closed {
		f()
	}
}

// SetSessionLeases sets the function that returns the leases of a session, so that refusals can be redacted.
func (p *Pipeline) SetSessionLeases(leasesOf func(namespace, session string) vault.Leases) {
	p.leasesOf.Store(&leasesOf)
}

// PackageSettings returns the settings of a package with effects, or the zero value.
func PackageSettings[T any](p *Pipeline) *T {
	if settings := findSettings[T](p.Config.Settings); settings != nil {
		return settings
	}
	return new(T)
}

// EnsureSettings returns the settings of a package with effects, and adds them to c if they are missing.
func EnsureSettings[T any](c *Config) *T {
	settings := findSettings[T](c.Settings)
	if settings == nil {
		settings = new(T)
		c.Settings = append(c.Settings, settings)
	}
	return settings
}

// findSettings returns the settings of a type, or nil.
func findSettings[T any](parts []any) *T {
	for _, part := range parts {
		if settings, is := part.(*T); is {
			return settings
		}
	}
	return nil
}

// PackageState returns the state that a package with effects keeps in a pipeline. The first call opens it.
func PackageState[T any](p *Pipeline, open func(*Pipeline) *T) *T {
	key := reflect.TypeFor[T]()
	if part, ok := p.parts.Load(key); ok {
		return part.(func() *T)()
	}
	part, _ := p.parts.LoadOrStore(key, sync.OnceValue(func() *T { return open(p) }))
	return part.(func() *T)()
}

// Runtime is a language that the operator defined. In its commands, {file} stands for the code's file, and {program}
// for the output of Compile. A command without {file} gets it as its last word, except the Command of a compiled
// language.
type Runtime struct {
	Name       string
	Extensions []string // of its files, with the dot, in lower case
	Command    []string // runs the code; its arguments follow
	Compile    []string // builds the program first; nil: not compiled
	Check      []string // checks only the syntax; nil: no check
	Kernel     []string // runs sessions, see [kernel.CustomLanguage]; nil: no sessions. {driver} stands for a file with Driver.
	Driver     string
}
