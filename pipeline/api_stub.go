package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

var errStub = errors.New("not built")

// NewSession asks for a session. Zero fields are the operator's defaults.
type NewSession struct {
	Namespace, Language, Backend, Profile string
	Require                               []string
	Allow                                 []string // names that its cells may reach
	Limits                                Bounds
	Idle, Lifetime                        time.Duration
}

// OpenSession starts a session. It is in the audit log before it is returned.
func (p *Pipeline) OpenSession(ctx context.Context, q NewSession) (session.Info, error) {
	return session.Info{}, errStub
}

// CloseSession ends a session, and all that runs in it.
func (p *Pipeline) CloseSession(ctx context.Context, id string) (session.Info, error) {
	return session.Info{}, errStub
}

// Sessions lists those of a namespace, or of all for "", dead ones of late among them.
func (p *Pipeline) Sessions(namespace string) []session.Info { return nil }

// Session returns one session; session.ErrUnknown if there is none of this id.
func (p *Pipeline) Session(id string) (session.Info, error) { return session.Info{}, errStub }

// Inspect returns what is inside a session, without its secrets.
func (p *Pipeline) Inspect(ctx context.Context, id string) (session.State, error) {
	return session.State{}, errStub
}

// Bridge puts a value into a session. It comes from Value, or from the variable Key of From.
type Bridge struct {
	From    string // a session, "" when Value is given
	Session string
	Key     string
	As      string          // the name in Session; "" is Key
	Value   json.RawMessage // any JSON
}

// Bridge carries a value into a session.
func (p *Pipeline) Bridge(ctx context.Context, b Bridge) (Result, error) { return Result{}, errStub }

// Install asks for packages. With a session they are that session's; else the namespace's.
type Install struct {
	ID, Namespace, Session, Language string
	Packages                         []string // as the package manager takes them: "requests==2.32.3", "left-pad@1.3.0"
	Timeout                          time.Duration
	Progress                         func(line string) // may be nil
}

// Package is one package that was installed.
type Package struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Hash      string `json:"hash"` // "sha256:..." or an npm integrity string
	Requested bool   `json:"requested"`
}

// Install fetches and installs packages. Result.Packages lists them; a package manager that fails
// is a Result whose Ended is "exit", with its output.
func (p *Pipeline) Install(ctx context.Context, q Install) (Result, error) { return Result{}, errStub }

// SetLimits changes the defaults of a namespace's later runs, or with a session what that may use.
// Zero fields stay as they are. It returns what is now in force.
func (p *Pipeline) SetLimits(ctx context.Context, namespace, session string, b Bounds) (Bounds, error) {
	return Bounds{}, errStub
}

// InForce are the limits of a run in this namespace that asks for none, and the caps.
func (p *Pipeline) InForce(namespace string) (limits, caps Bounds) { return Bounds{}, Bounds{} }

// Job is a run in the background.
type Job struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Session   string    `json:"session,omitempty"`
	State     string    `json:"state"` // "running" or "done"
	Began     time.Time `json:"began"`
	Stdout    string    `json:"stdout_tail"` // the last lines so far, at most 4 KiB
	Stderr    string    `json:"stderr_tail"`
	Result    *Result   `json:"result,omitempty"` // once it is done
}

// Begin runs a request in the background, for as long as the pipeline is open. What it returns is
// the id, under which Job finds it, and a channel that is closed when it is done.
func (p *Pipeline) Begin(q Request) (id string, done <-chan struct{}) { return "", nil }

// Job returns a background run, also for a while after it is done.
func (p *Pipeline) Job(id string) (Job, bool) { return Job{}, false }

// Jobs lists the background runs of a namespace, or of all for "".
func (p *Pipeline) Jobs(namespace string) []Job { return nil }

// CancelJob kills a background run. It says whether there was one running.
func (p *Pipeline) CancelJob(id string) bool { return false }

// Stats are figures of a running server.
type Stats struct {
	Began         time.Time        `json:"began"`
	Running       int              `json:"running"`
	Waiting       int              `json:"waiting"`
	Slots         int              `json:"slots"`
	Runs          map[string]int64 `json:"runs"`     // how many ended in which way, since Began
	Sessions      map[string]int   `json:"sessions"` // how many there are in which state
	Jobs          int              `json:"jobs"`
	P50, P90, P99 float64          // milliseconds of the last 1000 runs, from request to result
}

// Stats returns them.
func (p *Pipeline) Stats() Stats { return Stats{} }

// Probe says what a backend offers; "" is the default one.
func (p *Pipeline) Probe(ctx context.Context, backend string) (backends.Probe, error) {
	return backends.Probe{}, errStub
}

// Wish is an effect that policy may forbid, such as a command on the host.
type Wish struct {
	Tool, Namespace string
	What            string // in one line: the command, the path, the address
}

// Deny refuses a wish for the reason that policy gives, and puts that into the audit log.
func (p *Pipeline) Deny(ctx context.Context, w Wish, reason, remedy string) error { return errStub }
