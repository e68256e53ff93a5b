// Package pipeline runs requests: every program, page, package and host command passes through it.
//
//	request -> validate -> queue -> vault -> egress -> backend -> sign -> redact -> audit -> result
//
// Its promises: a run's start is in the audit log before its program begins, and start and end are durable
// before its result is handed out; secrets are taken out of all text before it is cut, logged or
// returned; a layer that policy requires and the host can't give means that nothing runs; and when
// Do returns, nothing of the run is left.
package pipeline

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Pipeline runs requests. All methods may be called concurrently.
type Pipeline struct {
	cfg             Config
	sessions        *session.Manager
	namespaceLimits namespaceLimits
	jobs            jobs
	under           under
	processes       processes
	paused          paused
	journal         *journal
	counters        *counters
	budget          *egress.Budget
	policy          string   // SHA-256 of cfg.Policy
	ends            sync.Map // of sessions that somebody ends: whether its row is late, an *atomic.Bool by the session's id

	analysers analysers
	pages     pages
	installed lazy.Answers[[]Installed]
	closed    lazy.Answers[bool] // backends that could give a session no gateway
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
	Web       Web
	Approvals *approval.Broker // asks people; nil: nobody can be asked

	Records
	Protected []string // files and directories of ours that no program may write, nor read: the log, keys, the configuration. Backends are told, too

	Sessions    session.Config    // how many, and for how long
	Packages    *packages.Store   // nil: nothing can be installed
	AskPackages bool              // a person must approve what is installed
	Results     *results.Store    // nil stores no results
	Data        map[string]string // host directories that can be asked for, by name
	Git         GitIdentity       // of commits in sandboxes
	Runtimes    []Runtime         // languages of the operator
	Review      Review            // what is done about dangerous code
	Host        Host              // which commands may run on the host

	// Journal is a directory of ours beside the log, in which processes list what they have under way, so that its end is known also of one that is killed; "" is none.
	Journal string

	// Temp is a directory of ours, for the files that are shown to a sandbox while it is being
	// started; what a killed process left in it is removed. "" is os.TempDir, which is everybody's
	// and is not tidied.
	Temp string
}

// Records are the settings of what receipts, rows and results have.
type Records struct {
	Keys      *signer.Keys // sign a receipt of each run; nil signs none
	Policy    []byte       // what the operator decided, which receipts name by its SHA-256
	Version   string       // of the program, as receipts name it
	User      string       // of the operating system, for whom all is done; "" is unknown
	Unknown   string       // what becomes of tokens that are in no vault: UnknownWarn, UnknownMask or UnknownOff
	Capture   Capture
	Artifacts ArtifactPolicy
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

// DefaultRoom is the number of runs that may wait where the operator sets none.
const DefaultRoom = 256

// New returns a pipeline with the settings of cfg.
func New(cfg Config) *Pipeline {
	cfg.Limits, cfg.Caps = cfg.Limits.or(DefaultBounds), cfg.Caps.or(DefaultCaps)
	cfg.Queue = cmp.Or(cfg.Queue, NewQueue(defaultSlots(runtime.GOMAXPROCS(0)), DefaultRoom))
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
	p := &Pipeline{cfg: cfg, counters: &counters{began: time.Now().UTC(), runs: map[string]map[string]int64{}}, budget: egress.NewBudget(), policy: hash(cfg.Policy)}
	p.namespaceLimits.each, p.under.all = map[string]Bounds{}, map[string]*live{}
	p.paused.all = map[string]*savedFiles{}
	if log, can := cfg.Audit.(crashLog); can && cfg.Journal != "" {
		p.processes.going.Go(func() { RecordCrashes(context.Background(), log, cfg.Journal, p.publish) })
	}
	p.journal = &journal{dir: cfg.Journal, open: map[string]string{}}
	cfg.Sessions.Kernels = kernels(cfg.Runtimes)
	cfg.Sessions.Pause = func(ctx context.Context, info session.Info) {
		_, _, _ = Do(ctx, p, PauseSession{Namespace: info.Namespace, Session: info.ID}) // else it ends, which its row says
	}
	p.sessions = session.NewManager(cfg.Sessions, p.sessionEnded)
	return p
}

// Close ends all sessions with their programs, and background runs, and waits for them.
func (p *Pipeline) Close() {
	p.jobs.close()
	p.sessions.Close()
	p.processes.going.Wait()
	p.paused.mu.Lock()
	paused := slices.Collect(maps.Keys(p.paused.all))
	p.paused.mu.Unlock()
	for _, id := range paused {
		p.forgetFiles(id, "server")
	}
	p.journal.close()
	p.analysers.close()
}
