package pipeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Run is a request in progress: the facts for its rows, and its result so far.
type Run struct {
	Pipeline *Pipeline
	Began    time.Time
	Outcome  Outcome
	Code     string        // SHA-256 of its code in hex
	ownFiles int           // files that come with its code: the script, none of a command
	client   string        // name that the caller's program reports
	Facts    Facts         // facts of every row about the run
	Active   *ActiveEffect // as others see it
	Redactor
	entries    []audit.Entry     // not yet in the log
	Releases   []func()          // release the run's resources, in reverse order
	started    bool              // the log has the run's start
	recordLate bool              // it took effect before its rows, which may fail
	Envelope   signer.Envelope   // the run's receipt, once it has ended
	Changes    *signer.ChangeSet // for its receipt
}

// NewRun returns a Run for an effect.
func (p *Pipeline) NewRun(s Subject) *Run {
	id := cmp.Or(s.ID, NewID())
	r := &Run{Pipeline: p, Began: time.Now(), Code: Hash(s.Code), ownFiles: s.Files, client: s.Client, Redactor: p.NewRedactor(nil)}
	r.Releases = append(r.Releases, func() { p.ForgetApprovals(id) })
	r.Facts = Facts{"code_sha256": r.Code, "code_bytes": len(s.Code), "name": s.Name, "language": s.Language}
	r.Facts.AddIf("session", s.Session, len(s.Session))
	r.AddCallerFacts(s.Client)
	maps.Copy(r.Facts, s.Facts)
	r.Outcome = Outcome{ID: id, Namespace: NamespaceOrDefault(s.Namespace), Session: s.Session, Language: s.Language, Name: s.Name,
		Manifest: signer.Manifest{Artifacts: []signer.Artifact{}},
		Egress:   []egress.Record{}, Layers: []backends.Layer{}}
	return r
}

// NewID returns a new id of a run. It does not use ulid.Make, whose randomness is predictable: ids also name things
// on the host.
func NewID() string {
	return ulid.MustNew(ulid.Now(), rand.Reader).String()
}

// TimeStage adds the time until the returned function is called to *stage.
func (r *Run) TimeStage(stage *int64) func() {
	start := time.Now()
	return func() { *stage += time.Since(start).Microseconds() }
}

// Release releases the run's resources.
func (r *Run) Release() {
	for _, give := range slices.Backward(r.Releases) {
		give()
	}
}

// AcquireSlots waits for slots for a run with these limits; leave releases them.
func (r *Run) AcquireSlots(ctx context.Context, l backends.Limits) (leave func(), err error) {
	leave, err = r.Pipeline.Config.Queue.Acquire(ctx, r.Outcome.Namespace, SlotWeight(l), r.PublishWaiting)
	switch {
	case err == nil:
		return leave, nil
	case !errors.Is(err, ErrBusy):
		return nil, WrapError(StageQueue, err)
	}
	r.publish(event.QueueBackpressure, map[string]any{"busy": true})
	return nil, RefuseBecause(err, StageQueue, "try again later, or ", remedy.Raise.With("max_concurrent or max_queue"))
}

// PublishWaiting notifies listeners that the run waits in the queue.
func (r *Run) PublishWaiting(waiting int) {
	r.publish(event.QueueBackpressure, map[string]any{"waiting": waiting})
}

// NamespaceOrDefault returns a namespace, "default" for "".
func NamespaceOrDefault(namespace string) string {
	return cmp.Or(namespace, "default")
}
