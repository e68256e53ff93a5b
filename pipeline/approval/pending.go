package approval

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// waitingQuestion is a question and its answer.
type waitingQuestion struct {
	q     Question
	sem   chan struct{} // holds one value while an answer is processed
	timer *time.Timer

	recorded chan struct{} // closed when it is in the log, or err is set
	err      error

	done   chan struct{} // closed when answer is set
	answer Answer

	screen chan struct{} // holds one value while it is displayed to a person
	gone   bool          // the run that asked has ended; guarded by the broker's lock
}

func newWaitingQuestion(q Question) *waitingQuestion {
	return &waitingQuestion{q: q, sem: make(chan struct{}, 1), screen: make(chan struct{}, 1), recorded: make(chan struct{}),
		done: make(chan struct{})}
}

func (w *waitingQuestion) lock(ctx context.Context) error {
	select {
	case w.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *waitingQuestion) unlock() { <-w.sem }

func (w *waitingQuestion) isDecided() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// Pending is an open question of one caller.
type Pending struct {
	Question Question // as a person sees it: of the first caller
	own      Question
	w        *waitingQuestion
}

// Open asks q. It returns once the question is in the audit log and can be answered. A question with the same key as
// a waiting one shares that. If the same question was approved and the approval is in force, or was denied less than
// a minute ago or for the same run, Open returns that answer at once, so that people are not asked until they give
// in.
func (b *Broker) Open(ctx context.Context, q Question) (*Pending, error) {
	q, err := q.normalize()
	if err != nil {
		return nil, fmt.Errorf("ask for approval: %w", err)
	}
	for {
		w, first, err := b.reserve(q)
		if err != nil {
			return nil, fmt.Errorf("ask for approval: %w", err)
		}
		if first {
			b.publish(ctx, w)
		}
		select {
		case <-w.recorded:
		case <-ctx.Done():
			return nil, fmt.Errorf("ask for approval: %w", context.Cause(ctx))
		}
		switch {
		case w.err == nil:
			return &Pending{w.q, q, w}, nil
		case first:
			return nil, fmt.Errorf("ask for approval: %w", w.err)
		} // the first caller may have given up: try again
	}
}

// reserve returns the waiting question with the same key, or a new one.
func (b *Broker) reserve(q Question) (w *waitingQuestion, first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropExpired()
	k := q.key()
	if b.closed {
		return nil, false, errClosed
	}
	if g, ok := b.findGrant(b.granted, q, q.CodeSHA256, ""); ok {
		return g.answeredQuestion(), false, nil
	}
	if g, ok := b.findGrant(b.denied, q, q.CodeSHA256); ok {
		g.Answer.Until = time.Time{}
		return g.answeredQuestion(), false, nil
	}
	if w, ok := b.same[k]; ok {
		return w, false, nil
	}
	if err := b.checkRoom(q); err != nil {
		return nil, false, err
	}
	q.Asked = b.c.Now()
	q.ID = ulid.MustNew(ulid.Timestamp(q.Asked), rand.Reader).String()
	q.Expires = q.Asked.Add(b.c.Timeout)
	w = newWaitingQuestion(q)
	b.same[k] = w
	return w, true, nil
}

// maxOfRun bounds the waiting questions of one run: a program that connects to invented hosts must neither fill the
// room nor swamp people.
const maxOfRun = 8

// share divides the room: one namespace's questions, and one client's, may take 1/share.
const share = 4

// checkRoom refuses a further question if there is no room. The caller holds the lock.
func (b *Broker) checkRoom(q Question) error {
	if len(b.same) >= b.c.Room {
		return ErrFull
	}
	var ofRun, ofNamespace, ofClient int
	for _, w := range b.same {
		ofRun += count(q.Run != "" && w.q.Run == q.Run)
		ofNamespace += count(w.q.Namespace == q.Namespace)
		ofClient += count(w.q.Client == q.Client)
	}
	limit := max(1, b.c.Room/share)
	switch {
	case ofRun >= maxOfRun:
		return fmt.Errorf("%w: this run has %d", ErrFull, ofRun)
	case ofNamespace >= limit:
		return fmt.Errorf("%w: namespace %q has %d", ErrFull, q.Namespace, ofNamespace)
	case ofClient >= limit:
		return fmt.Errorf("%w: this client has %d", ErrFull, ofClient)
	}
	return nil
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// publish records a new question, which can be answered from then on.
func (b *Broker) publish(ctx context.Context, w *waitingQuestion) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	defer close(w.recorded)
	h := auditEvent{requested, w.q.facts()}
	w.err = b.record(ctx, w.q, h)
	if b.admit(w); w.err == nil {
		b.notifyListeners(w.q, h)
		if b.c.Watch != nil {
			b.c.Watch(w.q)
		}
	}
}

// admit opens a question for its answer, if it was recorded.
func (b *Broker) admit(w *waitingQuestion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.err == nil && b.closed {
		w.err = errClosed
	}
	if w.err != nil {
		delete(b.same, w.q.key())
		return
	}
	b.open[w.q.ID] = w
	if w.gone {
		b.writing.Go(func() { b.withdraw(w) })
	}
	w.timer = time.AfterFunc(w.q.Expires.Sub(b.c.Now()), func() { b.expire(w) })
}

// expire denies a question that nobody answered in time.
func (b *Broker) expire(w *waitingQuestion) {
	b.mu.Lock()
	if b.closed { // Close denies it
		b.mu.Unlock()
		return
	}
	b.writing.Add(1)
	b.mu.Unlock()
	defer b.writing.Done()
	b.deny(w, Answer{Reason: fmt.Sprintf("nobody answered within %v", b.c.Timeout)})
}

// deny denies an unanswered question, in the broker's own name.
func (b *Broker) deny(w *waitingQuestion, a Answer) {
	if w.lock(context.Background()) != nil {
		return
	}
	defer w.unlock()
	if w.isDecided() {
		return
	}
	a.By = nobody()
	_ = b.decide(context.Background(), w, a) // no caller waits for the row
}

// Wait returns the answer, which is a denial if nobody answers in time. ErrOther means that the answer covers only
// the other caller's question; any other error means that ctx ended while the question still waits.
func (p *Pending) Wait(ctx context.Context) (Answer, error) {
	select {
	case <-p.w.done:
		return p.answer()
	default:
	}
	select {
	case <-p.w.done:
		return p.answer()
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

func (p *Pending) answer() (Answer, error) {
	if a := p.w.answer; a.covers(p.w.q, p.own) {
		return a, nil
	}
	return Answer{}, ErrOther
}
