package approval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// quiet is how long a no answers the same question when it is asked again.
const quiet = time.Minute

// Grant is an answer that is remembered until its Until: of those that are handed out, an approval that holds.
type Grant struct {
	Question Question `json:"question"`
	Answer   Answer   `json:"answer"`
}

// bound identifies the question that an answer is bound to, and the scope.
type bound struct {
	key
	scope, id string // the run's or the session's, which is never "" for those
}

func (q Question) bound(scope string) bound {
	ids := map[string]string{ScopeRun: q.Run, ScopeSession: q.Session}
	return bound{q.key(), scope, ids[scope]}
}

// answeredQuestion is the question as if it had been asked and answered just now.
func (g Grant) answeredQuestion() *waitingQuestion {
	w := newWaitingQuestion(g.Question)
	w.answer = g.Answer
	close(w.recorded)
	close(w.done)
	return w
}

// remember stores an answer. A person's no stands for as long as the run that it was told, and for a
// moment for all, so that nobody is asked until they give in; silence stands for a moment for the run,
// so that a program which tries again fails at once. The caller holds the lock.
func (b *Broker) remember(w *waitingQuestion, a Answer) {
	no := func(scope string, long time.Duration) {
		a := a
		a.Until = b.c.Now().Add(long)
		b.denied[w.q.bound(scope)] = Grant{w.q, a}
	}
	switch {
	case a.Allowed:
		k := w.q.bound(a.Scope)
		if g, ok := b.granted[k]; ok && g.Answer.Until.After(a.Until) {
			return // Grant was faster, and its approval ends later
		}
		if !w.gone || a.Scope != ScopeRun {
			b.granted[k] = Grant{w.q, a}
		}
		return
	case a.By != nobody():
		no(ScopeTime, quiet)
	}
	switch {
	case w.q.Run == "" || w.gone:
	case a.By == nobody():
		no(ScopeRun, quiet)
	default:
		no(ScopeRun, MaxFor)
	}
}

// dropExpired forgets what has ended. The caller holds the lock.
func (b *Broker) dropExpired() {
	now := b.c.Now()
	ended := func(_ bound, g Grant) bool { return !now.Before(g.Answer.Until) }
	maps.DeleteFunc(b.granted, ended)
	maps.DeleteFunc(b.denied, ended)
}

// findGrant returns the answer among those in m that covers q, which may be about one of these codes. The
// caller holds the lock.
func (b *Broker) findGrant(m map[bound]Grant, q Question, codes ...string) (Grant, bool) {
	for _, q.CodeSHA256 = range codes {
		for _, scope := range []string{ScopeTime, ScopeSession, ScopeRun} {
			if g, ok := m[q.bound(scope)]; ok && b.c.Now().Before(g.Answer.Until) {
				return g, true
			}
		}
	}
	return Grant{}, false
}

// Grants returns the approvals that hold, the oldest question first.
func (b *Broker) Grants() []Grant {
	return b.grants(func(bound, Grant) bool { return true })
}

// GrantsFor returns the approvals of a kind that hold for whoever would ask q: for its namespace, session,
// run and code. What else is in q does not count.
func (b *Broker) GrantsFor(kind string, q Question) []Grant {
	return b.grants(func(k bound, g Grant) bool {
		return k.kind == kind && k.namespace == q.Namespace && (k.code == "" || k.code == q.CodeSHA256) && g.Answer.covers(g.Question, q)
	})
}

func (b *Broker) grants(which func(bound, Grant) bool) []Grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropExpired()
	list := make([]Grant, 0, len(b.granted))
	for k, g := range b.granted {
		if which(k, g) {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(x, y Grant) int { return x.Question.Asked.Compare(y.Question.Asked) })
	return list
}

// Revoke takes an approval back, by the id of its question: ErrUnknown if it does not hold. by says
// who does it. From then on nothing is granted by it, also with ErrUnrecorded; what runs already goes on.
func (b *Broker) Revoke(ctx context.Context, id string, by Answer) error {
	if !by.By.isPerson() {
		return errors.New("revoke approval: it came from nowhere that a person answers from")
	}
	g, ok := b.removeGrant(strings.ToUpper(id))
	if !ok {
		return fmt.Errorf("revoke approval %.40q: %w", id, ErrUnknown)
	}
	by = Answer{By: by.By, User: clip(by.User), Reason: clip(by.Reason)}
	return b.recordLate(ctx, g.Question, auditEvent{revoked, by.facts()})
}

func (b *Broker) removeGrant(id string) (Grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropExpired()
	for k, g := range b.granted {
		if g.Question.ID == id {
			delete(b.granted, k)
			return g, true
		}
	}
	return Grant{}, false
}

// Forget drops what was said for a run or a session that has ended, and withdraws what the run asked
// and nobody has answered. Whoever waits with it asks again.
func (b *Broker) Forget(id string) {
	if id == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	its := func(k bound, _ Grant) bool { return k.id == id }
	maps.DeleteFunc(b.granted, its)
	maps.DeleteFunc(b.denied, its)
	for _, w := range b.same {
		if w.q.Run != id {
			continue
		}
		w.gone = true
		if b.open[w.q.ID] == w && !b.closed { // else it is withdrawn when it is recorded, or by Close
			b.writing.Go(func() { b.withdraw(w) })
		}
	}
}

// withdraw answers a question whose run has ended, for that run only.
func (b *Broker) withdraw(w *waitingQuestion) {
	b.deny(w, Answer{Scope: ScopeRun, Reason: "the run that asked has ended"})
}
