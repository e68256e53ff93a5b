package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
)

// UsageOf converts u for clients.
func UsageOf(u backends.Usage) CurrentUsage {
	return CurrentUsage{MemoryBytes: u.Memory, DiskBytes: u.Disk, CPUSeconds: u.CPU.Seconds(), Processes: u.Processes}
}

// RunningEffect describes a running effect.
type RunningEffect struct {
	Run       string        `json:"run"`
	Namespace string        `json:"namespace"`
	Session   string        `json:"session,omitempty"`
	Language  string        `json:"language,omitempty"`
	Name      string        `json:"name"`             // of the file, tool or change
	Client    string        `json:"client,omitempty"` // name that the caller's program reports
	State     string        `json:"state"`            // "waiting", "running", or "ending" once the program has ended
	Began     time.Time     `json:"began"`            // time of the request
	Started   time.Time     `json:"started,omitzero"` // start of the program
	Limits    Limits        `json:"limits,omitzero"`  // of a program
	Usage     *CurrentUsage `json:"usage,omitempty"`  // of a running program, or of its session
	Program   bool          `json:"program"`          // it is a program: its output can be followed
}

// registry holds the running effects.
type registry struct {
	Mu      sync.Mutex
	Effects map[string]*ActiveEffect
}

// ActiveEffect is a running effect, as others see it. Fields not guarded by mu are set before started is closed.
type ActiveEffect struct {
	namespace string
	cancel    context.CancelCauseFunc
	started   chan struct{}     // closed when a program begins
	over      chan struct{}     // closed when the effect is over
	code      func() []byte     // code of a program, redacted
	out       [2]*output.Stream // stdout and stderr of a program
	usage     func() backends.Usage
	stop      *Stopper // of a program that has a sandbox of its own

	WaitOwner string // owner of an effect that waits for its client, else ""; guarded by the registry's mutex

	mu         sync.Mutex
	info       RunningEffect
	displays   []kernel.Bundle
	newDisplay chan struct{} // closed at the next display
}

// addEffect registers an effect, until leave.
func (u *registry) addEffect(r *Run, cancel context.CancelCauseFunc) (leave func()) {
	l := &ActiveEffect{namespace: r.Outcome.Namespace, cancel: cancel, started: make(chan struct{}), over: make(chan struct{}),
		newDisplay: make(chan struct{})}
	l.info = RunningEffect{Run: r.Outcome.ID, Namespace: r.Outcome.Namespace, Session: r.Outcome.Session, Language: r.Outcome.Language,
		Name:   safetext.Clip(r.Outcome.Name, MaxText),
		Client: r.client, State: "waiting", Began: r.Began.UTC()}
	r.Active = l
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.Effects[r.Outcome.ID] = l
	return func() {
		u.Mu.Lock()
		defer u.Mu.Unlock()
		close(l.over)
		if u.Effects[r.Outcome.ID] == l {
			delete(u.Effects, r.Outcome.ID)
		}
	}
}

// FollowedProgram describes a running program for others.
type FollowedProgram struct {
	Language, Name string
	Limits         Bounds
	Code           func() []byte // redacted
	Out            *ProgramEnd
	Usage          func() backends.Usage
	Stop           *Stopper // of a program that has a sandbox of its own
}

// StartProgram records that the program starts, so that others can follow it.
func (l *ActiveEffect) StartProgram(of FollowedProgram) {
	l.code, l.usage, l.stop = of.Code, of.Usage, of.Stop
	l.out = [2]*output.Stream{of.Out.Stdout, of.Out.Stderr}
	l.mu.Lock()
	l.info.State, l.info.Started, l.info.Program = "running", time.Now().UTC(), true
	l.info.Language, l.info.Name, l.info.Limits = of.Language, safetext.Clip(of.Name, MaxText), LimitsOf(of.Limits)
	l.mu.Unlock()
	close(l.started)
}

// WaitForClient marks an effect as waiting for its client, unless its owner has as many waiting ones as allowed.
func (u *registry) WaitForClient(l *ActiveEffect, owner string, most int) error {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	n := 0
	for _, other := range u.Effects {
		if other.WaitOwner == owner {
			n++
		}
	}
	if n >= most {
		return fmt.Errorf("%d executions wait for results of tools, the maximum: answer some of them first", most)
	}
	l.WaitOwner = owner
	return nil
}

// StopWaiting marks an effect as no longer waiting.
func (u *registry) StopWaiting(l *ActiveEffect) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	l.WaitOwner = ""
}

// SetState sets the state of the effect. The caller may close the sandbox afterwards.
func (l *ActiveEffect) SetState(now string) {
	if l == nil { // there is no effect
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.info.State = now
}

// AddDisplay publishes a display of the program. It contains no secrets.
func (l *ActiveEffect) AddDisplay(b kernel.Bundle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.displays = append(l.displays, b)
	close(l.newDisplay)
	l.newDisplay = make(chan struct{})
}

// ShortenDisplays replaces the displays by the results of short.
func (l *ActiveEffect) ShortenDisplays(short func(kernel.Bundle) kernel.Bundle) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []kernel.Bundle // a new slice, because others may be reading the old one
	for _, b := range l.displays {
		all = append(all, short(b))
	}
	l.displays = all
}

// snapshot describes the effect, with the usage of a running program.
func (l *ActiveEffect) snapshot(usage bool) RunningEffect {
	l.mu.Lock()
	now := l.info
	l.mu.Unlock()
	if usage && now.Program && now.State == "running" {
		u := UsageOf(l.usage())
		now.Usage = &u
	}
	return now
}

// ListRunning lists the running effects of a namespace, or of all for "", the oldest first.
func (p *Pipeline) ListRunning(namespace string) []RunningEffect {
	list := []RunningEffect{}
	p.Active.Mu.Lock()
	all := slices.Collect(maps.Values(p.Active.Effects))
	p.Active.Mu.Unlock()
	for _, l := range all {
		if namespace == "" || l.namespace == namespace {
			list = append(list, l.snapshot(true))
		}
	}
	slices.SortFunc(list, func(a, b RunningEffect) int { return strings.Compare(a.Run, b.Run) })
	return list
}

// findEffect returns a running effect of a namespace, or nil.
func (u *registry) findEffect(namespace, id string) *ActiveEffect {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if l := u.Effects[id]; l != nil && l.namespace == NamespaceOrDefault(namespace) {
		return l
	}
	return nil
}

// ErrNotRunning is the error for a run that is not running.
var ErrNotRunning = errors.New("no such run is running")

// RunningCode returns the redacted code of a running program of a namespace, and its language.
func (p *Pipeline) RunningCode(namespace, id string) (code []byte, language string, err error) {
	l := p.Active.findEffect(namespace, id)
	if l == nil {
		return nil, "", ErrNotRunning
	}
	select {
	case <-l.started:
		return l.code(), l.snapshot(false).Language, nil
	default:
		return nil, "", ErrNotRunning
	}
}

// A Follower receives the output and the displays of a program, from the beginning. An error of a function stops it.
// The functions are called concurrently.
type Follower struct {
	Output  func(n int, b []byte) error // of stdout, 0, or stderr, 1
	Display func(kernel.Bundle) error
}

// FollowProgram sends the output and displays of a running program of a namespace to f, from the beginning, until the
// program or ctx ends. They are redacted, and cut like the result's output.
func (p *Pipeline) FollowProgram(ctx context.Context, namespace, id string, f Follower) error {
	l := p.Active.findEffect(namespace, id)
	if l == nil {
		return ErrNotRunning
	}
	select {
	case <-l.started:
	case <-l.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for n, s := range l.out {
		all.Go(func() {
			next := func(after int) ([]byte, bool) { return s.Stored(ctx, after) }
			if err := output.CopyParts(next, func(part []byte) error { return f.Output(n, part) }); err != nil {
				cancel(err)
			}
		})
	}
	all.Go(func() { l.sendDisplays(ctx, f.Display, cancel) })
	all.Wait()
	return context.Cause(ctx)
}

// sendDisplays calls f for each display, until the effect is over.
func (l *ActiveEffect) sendDisplays(ctx context.Context, f func(kernel.Bundle) error, cancel context.CancelCauseFunc) {
	for next := 0; ; {
		l.mu.Lock()
		fresh, more := l.displays[next:len(l.displays):len(l.displays)], l.newDisplay
		l.mu.Unlock()
		for _, b := range fresh {
			if err := f(b); err != nil {
				cancel(err)
				return
			}
		}
		next += len(fresh)
		if len(fresh) > 0 {
			continue
		}
		select {
		case <-more:
		case <-l.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Interrupt ends a running effect: a program with SIGINT, and SIGKILL some seconds later; a cell with the interrupt
// of its language; any other effect, and with Kill any program, by cancelling its context. It takes effect first; the
// audit log gets its row then, or as soon as possible.
type Interrupt struct {
	Namespace, Run string
	Kill           bool
}

// InterruptGrace is the time between an interrupt of a program and its kill.
const InterruptGrace = 5 * time.Second

func (q Interrupt) Subject() Subject { return About("interrupt", q.Namespace, "") }

func (q Interrupt) Plan(_ context.Context, r *Run) (Action[NoAnswer], error) {
	l := r.Pipeline.Active.findEffect(q.Namespace, q.Run)
	if l == nil || l == r.Active {
		return nil, RefuseBecause(ErrNotRunning, StageValidate)
	}
	row := Facts{"of": q.Run, "kill": q.Kill}
	session := l.snapshot(false).Session
	row.AddIf("session", session, len(session))
	return &Change[NoAnswer]{Task: Task[NoAnswer]{Run: r, Stage: StageBackend, Do: func(ctx context.Context) (none NoAnswer, _ error) {
		if l.stop == nil || q.Kill || !l.stop.Signal(syscall.SIGINT) {
			who := CallerFrom(ctx)
			l.cancel(&interruption{by: strings.Join(slices.DeleteFunc([]string{who.By, who.User, who.Identity},
				func(s string) bool { return s == "" }), ", ")})
		}
		return none, nil
	}}, RowKind: "execution.interrupted", Facts: row, Revokes: true}, nil
}

// interruption is the cause of a run that was interrupted.
type interruption struct{ by string }

func (i *interruption) Error() string { return "interrupted by " + i.by }

func (i *interruption) Unwrap() error { return context.Canceled }
