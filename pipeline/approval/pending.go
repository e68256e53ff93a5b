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
	sem   chan struct{} // has room for one: locked while somebody answers
	timer *time.Timer

	recorded chan struct{} // closed when it is in the log, or err says why it is not
	err      error

	done   chan struct{} // closed when there is an answer
	answer Answer

	screen chan struct{} // has room for one: whoever shows it to a person
	gone   bool          // the run that asked has ended; the broker's lock is its
}

func newWaitingQuestion(q Question) *waitingQuestion {
	return &waitingQuestion{q: q, sem: make(chan struct{}, 1), screen: make(chan struct{}, 1), recorded: make(chan struct{}), done: make(chan struct{})}
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

// Pending is a question that was asked.
type Pending struct {
	Question Question // as a person sees it: that of whoever asked first
	own      Question
	w        *waitingQuestion
}

// Open asks q. It returns once the question is in the audit log and can be answered. A question that
// asks the same as one that waits is that one; and one that was answered, for as long as the
// approval holds, or a minute ago or to the same run with no, has that answer at once, so that nobody
// is asked until they give in.
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
		} // whoever asked it first may have given up: that is not our failure
	}
}

// reserve returns the question that waits for the same answer, or a new one.
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

// maxOfRun is how many questions of one run may wait at once: a program that connects to whatever it
// can make up must not leave others without room, nor people with more than they can read.
const maxOfRun = 8

// share is the part of the room, as 1/share, that one namespace's questions may take, and one client's.
const share = 4

// checkRoom returns an error if no further question may wait. The caller holds the lock.
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
		return fmt.Errorf("%w: %d of this run alone", ErrFull, ofRun)
	case ofNamespace >= limit:
		return fmt.Errorf("%w: %d of the namespace %q alone", ErrFull, ofNamespace, q.Namespace)
	case ofClient >= limit:
		return fmt.Errorf("%w: %d of this client alone", ErrFull, ofClient)
	}
	return nil
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// publish records a new question, and from then on it can be answered.
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

// admit lets a question wait for its answer, if it was recorded.
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

// expire denies a question whose time is up.
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

// deny denies what nobody has answered, in the broker's own name.
func (b *Broker) deny(w *waitingQuestion, a Answer) {
	if w.lock(context.Background()) != nil {
		return
	}
	defer w.unlock()
	if w.isDecided() {
		return
	}
	a.By = nobody()
	_ = b.decide(context.Background(), w, a) // nobody waits for it to be recorded
}

// Wait returns the answer. It is a denial if nobody answers in time. ErrOther means that the question
// was somebody else's, and so the answer; any other error that ctx ended, and that the question waits
// on.
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
