// Package pipeline does whatever is done for a caller, one effect at a time: every program, page, package and host
// command passes through Do.
//
//	request -> validate -> queue -> vault -> egress -> backend -> sign -> redact -> audit -> result
//
// Its promises: a run's start is in the audit log before its program begins, and start and end are durable
// before its result is handed out; secrets are taken out of all text before it is cut, logged or
// returned; a layer that policy requires and the host can't give means that nothing runs; and when
// Do returns, nothing of the run is left.
//
// An effect has a subject, which its rows are about, plans, which decides and does nothing else, and comes to an
// action, which Do has acquire, start, perform, seal and settle. It is defined by a package beside what it is about:
// run (programs and cells), session, inside (files, processes and ports of a session), host, web, install. What these
// share about a sandbox to be stands in containment. This package has what all effects share: the queue, rows,
// redaction, receipts, the journal of what is under way, and the outcome.
//
// A file calls what stands in those behind it, in this order: pipeline, effect, running, limits, run, output, receipt,
// end, counters, record, outcome, journal, error, queue, egress, caller, scrub, redactor, stop, unknown.
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
	going           sync.WaitGroup // what Close waits for
	parts           sync.Map       // what packages with effects of their own keep, by its type: see Part
	mu              sync.Mutex
	closers         []func()
	closed          bool
	leasesOf        atomic.Pointer[func(namespace, session string) vault.Leases] // of a session; nil while there is none
	Journal         *Journal
	Counters        *counters
	Budget          *egress.Budget
	policy          string // SHA-256 of cfg.Policy
}

// Config holds the parts and the settings of a pipeline.
type Config struct {
	Backends []backends.Backend // the first is the default
	Audit    Recorder           // without one, every run is refused
	Vault    *vault.Vault       // nil has no secrets
	Bus      *event.Bus         // nil: nobody listens
	Queue    *Queue             // nil: defaultSlots, and DefaultRoom that wait

	Profile  string             // the default; "" is "hardened"
	Profiles map[string]Profile // nil: those that the backends know, with all that they promise
	Limits   Bounds             // of a run that asks for none; zero fields are DefaultBounds
	Caps     Bounds             // what a run can ask for at most; zero fields are DefaultCaps

	Egress    Egress
	Approvals *approval.Broker // asks people; nil: nobody can be asked

	RecordConfig
	Protected []string // files and directories of ours that no program may write, nor read: the log, keys, the configuration. Backends are told, too

	Homes string // directory of ours for the homes of agents, each of which one run may have; "" is none

	Packages    *packages.Store   // nil: nothing can be installed
	AskPackages bool              // a person must approve what is installed
	Results     *results.Store    // nil stores no results
	Data        map[string]string // host directories that can be asked for, by name
	Git         GitIdentity       // of commits in sandboxes
	Runtimes    []Runtime         // languages of the operator

	// Settings are the settings of packages that have effects of their own, such as *web.Config. What is not among them is
	// off, or has its defaults.
	Settings []any

	// Journal is a directory of ours beside the log, in which processes list what they have under way, so that its end is
	// known also of one that is killed; "" is none.
	Journal string

	// Temp is a directory of ours, for the files that are shown to a sandbox while it is being
	// started; what a killed process left in it is removed. "" is os.TempDir, which is everybody's
	// and is not tidied.
	Temp string
}

// RecordConfig are the settings of what receipts, rows and results have.
type RecordConfig struct {
	Keys          *signer.Keys // sign a receipt of each run; nil signs none
	Policy        []byte       // what the operator decided, which receipts name by its SHA-256
	Version       string       // of the program, as receipts name it
	User          string       // of the operating system, for whom all is done; "" is unknown
	UnknownTokens string       // what becomes of tokens that are in no vault: UnknownWarn, UnknownMask or UnknownOff
	Capture       Capture
	Artifacts     ArtifactPolicy
}

// Recorder is the audit log. What it was given is durable when Append returns without an error, or, where
// all entries say Soon, in the log at least; it may be called concurrently.
type Recorder = approval.Recorder

// Profile is an operator's demand of containment, which has a name.
type Profile struct {
	Base    string   // the backend's own profile: "hardened" or "landlock"
	Require []string // layers without which a run is refused; nil is what the backend promises
}

// ArtifactPolicy bounds the artifacts that are handed out.
type ArtifactPolicy struct {
	MaxCount int   // files; 0 is the count of DefaultArtifacts
	MaxBytes int64 // of all together; 0 is the bytes of DefaultArtifacts
	// ShowSecrets hands artifacts out even if a leased secret is in them.
	ShowSecrets bool
}

// DefaultArtifacts applies where the operator sets no bounds.
var DefaultArtifacts = ArtifactPolicy{MaxCount: 1000, MaxBytes: 512 << 20}

// DefaultQueueRoom is the number of runs that may wait where the operator sets none.
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
	p := &Pipeline{Config: cfg, Counters: &counters{Began: time.Now().UTC(), Runs: map[string]map[string]int64{}}, Budget: egress.NewBudget(), policy: Hash(cfg.Policy)}
	p.NamespaceLimits.each, p.Active.Effects = map[string]Bounds{}, map[string]*ActiveEffect{}
	if log, can := cfg.Audit.(crashLog); can && cfg.Journal != "" {
		p.going.Go(func() { RecordCrashes(context.Background(), log, cfg.Journal, p.PublishEvent) })
	}
	p.Journal = &Journal{dir: cfg.Journal, open: map[string]string{}}
	return p
}

// Close ends all that is under way, sessions with their programs and background runs among it, and waits for that.
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

// OnClose has Close call f, before what was registered earlier. It calls f at once where Close was called before.
func (p *Pipeline) OnClose(f func()) {
	p.mu.Lock()
	closed := p.closed
	p.closers = append(p.closers, f)
	p.mu.Unlock()
	if closed {
		f()
	}
}

// SetSessionLeases has refusals be cleaned of the secrets of sessions, whose leases leasesOf returns.
func (p *Pipeline) SetSessionLeases(leasesOf func(namespace, session string) vault.Leases) {
	p.leasesOf.Store(&leasesOf)
}

// PackageSettings returns the settings of a package with effects of its own: the zero value where there are none.
func PackageSettings[T any](p *Pipeline) *T {
	if settings := findSettings[T](p.Config.Settings); settings != nil {
		return settings
	}
	return new(T)
}

// EnsureSettings returns the settings of a package with effects of its own, which are added to c if it has none.
func EnsureSettings[T any](c *Config) *T {
	settings := findSettings[T](c.Settings)
	if settings == nil {
		settings = new(T)
		c.Settings = append(c.Settings, settings)
	}
	return settings
}

// findSettings returns the settings of a type, nil where there are none.
func findSettings[T any](parts []any) *T {
	for _, part := range parts {
		if settings, is := part.(*T); is {
			return settings
		}
	}
	return nil
}

// PackageState returns what a package with effects of its own keeps with a pipeline, which is made the first time.
func PackageState[T any](p *Pipeline, open func(*Pipeline) *T) *T {
	key := reflect.TypeFor[T]()
	if part, ok := p.parts.Load(key); ok {
		return part.(func() *T)()
	}
	part, _ := p.parts.LoadOrStore(key, sync.OnceValue(func() *T { return open(p) }))
	return part.(func() *T)()
}

// Runtime is a language that the operator has named. In a word of its commands, {file} stands for the code's file, and
// {program} for where Compile leaves a program. A command without {file} gets it as its last word, but for the Command
// of what is compiled.
type Runtime struct {
	Name       string
	Extensions []string // of its files, with the dot, in lower case
	Command    []string // runs the code; its arguments follow
	Compile    []string // makes the program first; nil is that there is none
	Check      []string // looks at the syntax alone; nil is that nothing can
	Kernel     []string // keeps a session, see [kernel.CustomLanguage]; nil is that it has none. In it, {driver} stands for a file that has Driver.
	Driver     string
}
