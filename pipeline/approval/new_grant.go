package approval

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// maxGrants bounds the approvals in force. Config.Room bounds waiting questions.
const maxGrants = 10_000

// Grant approves q before anybody asks. The bounds of questions and answers apply, and a.Scope "" is the session if q
// names one, else all of the namespace. Question and answer are logged together before the approval takes effect; an
// error means that it does not. Grant also answers waiting questions with the same key, and replaces an approval with
// the same key and scope.
func (b *Broker) Grant(ctx context.Context, q Question, a Answer) (Grant, error) {
	g, err := b.grant(ctx, q, a)
	if err != nil {
		return Grant{}, fmt.Errorf("give an approval: %w", err)
	}
	return g, nil
}

func (b *Broker) grant(ctx context.Context, q Question, a Answer) (Grant, error) {
	if err := b.checkChannel(a); err != nil {
		return Grant{}, err
	}
	q, a, err := b.newGrant(q, a)
	if err != nil {
		return Grant{}, err
	}
	if err := b.startWriting(); err != nil {
		return Grant{}, err
	}
	defer b.writing.Done()
	asked, yes := auditEvent{requested, q.facts()}, auditEvent{approved, a.facts()}
	asked.facts["unasked"] = true
	recording, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	if err := b.record(recording, q, asked, yes); err != nil {
		return Grant{}, err
	}
	waiting := b.addGrant(q, a)
	b.notifyListeners(q, asked)
	b.notifyListeners(q, yes)
	for _, w := range waiting {
		b.answerFromGrant(ctx, w, a)
	}
	return Grant{q, a}, nil
}

// newGrant turns the arguments of Grant into a question that was asked and answered just now.
func (b *Broker) newGrant(q Question, a Answer) (Question, Answer, error) {
	if !a.Allowed {
		return q, a, errors.New("only approvals can be granted in advance")
	}
	q, err := q.normalize()
	if err != nil {
		return q, a, fmt.Errorf("%w: %v", ErrQuestion, err)
	}
	if a.Scope == "" && q.Session != "" {
		a.Scope = ScopeSession
	}
	now := b.c.Now()
	if a, err = boundAnswer(a, q, now); err != nil {
		return q, a, err
	}
	if !now.Before(a.Until) {
		return q, a, fmt.Errorf("%w: it ends in the past, at %s", ErrScope, a.Until.Format(time.DateTime))
	}
	q.ID = ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
	q.Asked, q.Expires = now, now
	return q, a, nil
}

// startWriting makes Close wait until b.writing.Done.
func (b *Broker) startWriting() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropExpired()
	switch {
	case b.closed:
		return errClosed
	case len(b.granted) >= maxGrants:
		return fmt.Errorf("%d approvals are active, the maximum", maxGrants)
	}
	b.writing.Add(1)
	return nil
}

// addGrant puts an approval into force, and returns the waiting questions that it answers.
func (b *Broker) addGrant(q Question, a Answer) (waiting []*waitingQuestion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.granted[q.bound(a.Scope)] = Grant{q, a}
	b.rememberID(q.ID)
	for k, w := range b.same {
		k.code = q.CodeSHA256
		if k == q.key() && (q.CodeSHA256 == "" || w.q.CodeSHA256 == q.CodeSHA256) && a.covers(q, w.q) {
			waiting = append(waiting, w)
		}
	}
	return waiting
}

// answerFromGrant answers a question with an approval that was granted meanwhile. If that fails, because it is
// answered already or the log fails, the approval stays in force.
func (b *Broker) answerFromGrant(ctx context.Context, w *waitingQuestion, a Answer) {
	select {
	case <-w.recorded:
	case <-ctx.Done():
		return
	}
	if w.err == nil {
		_ = b.answer(ctx, w.q.ID, a)
	}
}
