// Package approval asks people, never agents, for permissions, and remembers their answers for as long as they chose.
//
// Its promises:
//   - A question is in the audit log before it can be answered, an approval before it has an effect. If the log
//     fails, an approval is refused; a denial takes effect at once, and its row is written as soon as possible.
//   - Silence means no. So does the end of the server.
//   - The first answer counts. It covers exactly the question, for the scope that the person chose (the run, the
//     session, or all of the namespace) and for the requested time or less; nothing is remembered longer than this
//     process lives.
//   - A run that waits for an answer which turns out to cover only other runs asks again.
//
// A limit: a person at this machine and a program that runs as the same user outside of any sandbox look alike. An
// agent that may run commands on the host may also run the command that approves, unless Config.Root reserves
// approvals for root.
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

// Values of a zero Config.
const (
	DefaultTimeout = 10 * time.Minute // time for an agent to tell a person the command, and for the person to type it
	DefaultRoom    = 100
)

// ErrUnrecorded is the error of a denial or a revocation that takes effect although it can't be written to the audit
// log now.
var ErrUnrecorded = errors.New("it takes effect, but the audit log can't be written at the moment")

// ErrFull means that too many questions wait for an answer.
var ErrFull = errors.New("too many questions wait for an answer")

var errClosed = errors.New("the server is shutting down")

// Recorder makes entries durable before it returns.
type Recorder interface {
	Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error)
}

// Config bounds questions, and names the people who may answer them.
type Config struct {
	Timeout time.Duration // time that a question waits; 0 is ten minutes
	Root    bool          // only root approves; anybody may deny
	Room    int           // questions that may wait at once, a quarter of them of one namespace or of one client; 0 is 100
	Audit   Recorder      // required to ask
	Bus     *event.Bus    // may be nil
	Now     func() time.Time
	// Watch is called for each question that begins to wait for people. It must return at once. May be nil.
	Watch func(Question)
}

// Broker holds the waiting questions and the answers in force. Its methods may be called concurrently.
type Broker struct {
	c Config

	mu      sync.Mutex
	open    map[string]*waitingQuestion // by id
	same    map[key]*waitingQuestion    // waiting questions, by their key
	granted map[bound]Grant             // approvals in force
	denied  map[bound]Grant             // denials that answer the same question for a while
	past    []string                    // ids of questions that people answered, the newest last
	closed  bool

	writing sync.WaitGroup // rows of the broker's own denials
}

// New returns a broker without questions. Close it before the log that it writes to.
func New(c Config) *Broker {
	c.Timeout = cmp.Or(max(c.Timeout, 0), DefaultTimeout)
	c.Room = cmp.Or(max(c.Room, 0), DefaultRoom)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Broker{c: c, open: map[string]*waitingQuestion{}, same: map[key]*waitingQuestion{}, granted: map[bound]Grant{},
		denied: map[bound]Grant{}}
}

// RequiresRoot reports whether only root may approve.
func (b *Broker) RequiresRoot() bool { return b.c.Root }

// Pending returns the waiting questions, the oldest first.
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

// Answer answers a question. The first answer wins: a later one is ErrAnswered, and one to an unknown or expired
// question ErrUnknown. An approval for a run or a session that the question does not have is ErrScope, and one by
// another user if root is required ErrRoot. An error other than ErrUnrecorded means that the answer has no effect,
// for example because an approval can't be recorded, and that the question still waits if it did before.
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

// checkChannel refuses an answer from a channel that must not give it.
func (b *Broker) checkChannel(a Answer) error {
	switch {
	case !a.By.isPerson():
		return errors.New("it did not come from a person")
	case a.Allowed && b.c.Root && a.By != Root():
		return ErrRoot
	}
	return nil
}

// decide records an approval and then makes it the answer; a denial takes effect first. The caller holds the lock of
// the question.
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

// auditTimeout bounds a write to the log. A question that is being answered when it expires is decided at most this
// much later.
const auditTimeout = 10 * time.Second

// finishQuestion makes a the answer of w.
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

// maxPast bounds the answered questions that are remembered.
const maxPast = 1000

// rememberID keeps the id of a question that a person answered. The caller holds the lock.
func (b *Broker) rememberID(id string) {
	b.past = append(b.past, id)
	b.past = slices.Delete(b.past, 0, max(0, len(b.past)-maxPast))
}

// Close denies all waiting questions, and refuses new ones.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	waiting := slices.Collect(maps.Values(b.open))
	b.mu.Unlock()
	for _, w := range waiting {
		b.writing.Go(func() { b.deny(w, Answer{Reason: "the server shut down before anybody answered"}) })
	}
	b.writing.Wait()
	return nil
}
