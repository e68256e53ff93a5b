// Package approval asks people, never agents, and remembers what they said for as long as they said.
//
// What holds:
//   - A question is in the audit log before it can be answered, an approval before it has an effect. A
//     log that fails means no, and holds up no no: its row is written as soon as that can be.
//   - Silence means no. So does the end of the server.
//   - The first answer counts. It covers exactly what was asked, for whom the person said (the run, the
//     session, or all of the namespace) and until the time that was asked for, or less if they said so;
//     nothing is remembered longer than this process lives.
//   - Whoever waits with others for an answer that turns out to be for those asks again.
//
// What does not: a person at the same machine and a program that runs as the same user outside of
// any sandbox look alike. Whoever lets an agent run commands on the host lets it run this one, too, unless
// Config.Root leaves approvals to root.
package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// What a zero Config means.
const (
	DefaultTimeout = 10 * time.Minute // time for an agent to tell a person what to type, and for that
	DefaultRoom    = 100
)

// ErrUnrecorded is the error of a no, and of an approval that is taken back, which count although that can't be written
// to the audit log now.
var ErrUnrecorded = errors.New("it counts, but the audit log can't be written at the moment")

// ErrFull says that too many questions wait for an answer.
var ErrFull = errors.New("too many questions wait for an answer")

var errClosed = errors.New("the server is ending")

// Recorder makes entries durable before it returns.
type Recorder interface {
	Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error)
}

// Config bounds how questions are asked, and who may answer.
type Config struct {
	Timeout time.Duration // how long a question waits; 0 is ten minutes
	Root    bool          // only root approves; anybody may deny
	Room    int           // questions that may wait at once, a quarter of them of one namespace or of one client; 0 is 100
	Audit   Recorder      // without one nothing can be asked
	Bus     *event.Bus    // may be nil
	Now     func() time.Time
	// Watch is told of each question that begins to wait for people. It must return at once. nil is nobody.
	Watch func(Question)
}

// Broker holds the questions that wait and the answers that hold. Its methods may be called
// concurrently.
type Broker struct {
	c Config

	mu      sync.Mutex
	open    map[string]*waitingQuestion // by id
	same    map[key]*waitingQuestion    // those that wait, by what they ask
	granted map[bound]Grant             // approvals that hold
	denied  map[bound]Grant             // denials that answer the same question for a while
	past    []string                    // ids that people answered, the newest last
	closed  bool

	writing sync.WaitGroup // of denials that the broker makes
}

// New returns a broker without questions. Close it before the log that it writes to.
func New(c Config) *Broker {
	c.Timeout = cmp.Or(max(c.Timeout, 0), DefaultTimeout)
	c.Room = cmp.Or(max(c.Room, 0), DefaultRoom)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Broker{c: c, open: map[string]*waitingQuestion{}, same: map[key]*waitingQuestion{}, granted: map[bound]Grant{}, denied: map[bound]Grant{}}
}

// RequiresRoot reports whether nobody but root approves.
func (b *Broker) RequiresRoot() bool { return b.c.Root }

// Pending returns the questions that wait for an answer, the oldest first.
func (b *Broker) Pending() []Question {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Question, 0, len(b.open))
	for _, a := range b.open {
		if b.c.Now().Before(a.q.Expires) {
			list = append(list, a.q)
		}
	}
	slices.SortFunc(list, func(x, y Question) int { return cmp.Or(x.Asked.Compare(y.Asked), strings.Compare(x.ID, y.ID)) })
	return list
}

// Answer answers a question. The first answer wins: a later one is ErrAnswered, and one to a question
// that there is not, or whose time is up, ErrUnknown. An approval for a run or a session that the
// question does not have is ErrScope, and one of another than root, where it has to be root, ErrRoot. An error but
// ErrUnrecorded means that the answer has no effect, because an approval can't be recorded for instance, and that the
// question still waits if it did before.
func (b *Broker) Answer(ctx context.Context, id string, a Answer) error {
	if err := b.answer(ctx, strings.ToUpper(id), a); err != nil {
		return fmt.Errorf("answer question %.40q: %w", id, err)
	}
	return nil
}

func (b *Broker) answer(ctx context.Context, id string, a Answer) error {
	if err := b.checkChannel(a); err != nil {
		return err
	}
	b.mu.Lock()
	w, past := b.open[id], slices.Contains(b.past, id)
	b.mu.Unlock()
	switch {
	case past:
		return ErrAnswered
	case w == nil:
		return ErrUnknown
	}
	if err := w.lock(ctx); err != nil {
		return err
	}
	defer w.unlock()
	now := b.c.Now()
	if w.isDecided() && w.answer.By != nobody() {
		return ErrAnswered
	}
	if w.isDecided() || !now.Before(w.q.Expires) {
		return ErrUnknown
	}
	a, err := boundAnswer(a, w.q, now)
	if err != nil {
		return err
	}
	return b.decide(ctx, w, a)
}

// checkChannel returns an error if an answer must not have an effect, because of where it came from.
func (b *Broker) checkChannel(a Answer) error {
	switch {
	case !a.By.isPerson():
		return errors.New("it came from nowhere that a person answers from")
	case a.Allowed && b.c.Root && a.By != Root():
		return ErrRoot
	}
	return nil
}

// decide records an approval, and then makes it the answer; a no counts at once. The caller holds the lock of the
// question.
func (b *Broker) decide(ctx context.Context, w *waitingQuestion, a Answer) error {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	if !a.Allowed {
		b.finishQuestion(w, a)
		h := auditEvent{denied, a.facts()}
		defer b.notifyListeners(w.q, h)
		return b.recordLate(ctx, w.q, h)
	}
	h := auditEvent{approved, a.facts()}
	if err := b.record(ctx, w.q, h); err != nil {
		return err
	}
	b.finishQuestion(w, a)
	b.notifyListeners(w.q, h)
	return nil
}

// auditTimeout bounds a write to the log. A question that is being answered when its time is up is
// answered this much later at most.
const auditTimeout = 10 * time.Second

// finishQuestion makes a the answer.
func (b *Broker) finishQuestion(w *waitingQuestion, a Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropExpired()
	b.remember(w, a)
	delete(b.open, w.q.ID)
	delete(b.same, w.q.key())
	if a.By != nobody() {
		b.rememberID(w.q.ID)
	}
	w.timer.Stop()
	w.answer = a
	close(w.done)
}

// maxPast is how many answered questions are known as such.
const maxPast = 1000

// rememberID keeps the id of a question that a person answered. The caller holds the lock.
func (b *Broker) rememberID(id string) {
	b.past = append(b.past, id)
	b.past = slices.Delete(b.past, 0, max(0, len(b.past)-maxPast))
}

// Close denies what waits, and lets nothing more be asked.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	waiting := slices.Collect(maps.Values(b.open))
	b.mu.Unlock()
	for _, w := range waiting {
		b.writing.Go(func() { b.deny(w, Answer{Reason: "the server ended before anybody answered"}) })
	}
	b.writing.Wait()
	return nil
}
