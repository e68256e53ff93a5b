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

// quiet is the time for which a denial also answers repetitions of its question.
const quiet = time.Minute

// Grant is an answer that is remembered until Answer.Until. Grants that are returned to callers are approvals in
// force.
type Grant struct {
	Question Question `json:"question"`
	Answer   Answer   `json:"answer"`
}

// bound identifies the question and the scope of an answer.
type bound struct {
	key
	scope, id string // id of the run or session of the scope; "" for ScopeTime
}

func (q Question) bound(scope string) bound {
	ids := map[string]string{ScopeRun: q.Run, ScopeSession: q.Session}
	return bound{q.key(), scope, ids[scope]}
}

// answeredQuestion returns the question of g as if it had been asked and answered just now.
func (g Grant) answeredQuestion() *waitingQuestion {
	w := newWaitingQuestion(g.Question)
	w.answer = g.Answer
	close(w.recorded)
	close(w.done)
	return w
}

// remember stores an answer. A person's denial holds for the rest of the run, and for quiet in the whole namespace,
// so that people are not asked until they give in; silence holds for quiet in the run, so that a program which
// retries fails at once. The caller holds the lock.
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
			return // a concurrent Grant ends later
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

// dropExpired drops expired answers. The caller holds the lock.
func (b *Broker) dropExpired() {
	now := b.c.Now()
	ended := func(_ bound, g Grant) bool { return !now.Before(g.Answer.Until) }
	maps.DeleteFunc(b.granted, ended)
	maps.DeleteFunc(b.denied, ended)
}

// findGrant returns the answer in m that covers q, for any of these codes. The caller holds the lock.
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

// Grants returns the approvals in force, the oldest question first.
func (b *Broker) Grants() []Grant {
	return b.grants(func(bound, Grant) bool { return true })
}

// GrantsFor returns the approvals of a kind in force for a caller that would ask q: for its namespace, session, run
// and code. Other fields of q are ignored.
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

// Revoke revokes an approval, by the id of its question: ErrUnknown if it is not in force. by describes the person.
// The approval grants nothing more from then on, even with ErrUnrecorded; running programs go on.
func (b *Broker) Revoke(ctx context.Context, id string, by Answer) error {
	if !by.By.isPerson() {
		return errors.New("revoke approval: it did not come from a person")
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

// Forget drops the answers for a run or a session that has ended, and withdraws the run's unanswered questions. Other
// runs that wait for the same questions ask again.
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
		if b.open[w.q.ID] == w && !b.closed { // else admit or Close withdraws it
			b.writing.Go(func() { b.withdraw(w) })
		}
	}
}

// withdraw denies a question whose run has ended, for that run only.
func (b *Broker) withdraw(w *waitingQuestion) {
	b.deny(w, Answer{Scope: ScopeRun, Reason: "the run ended before anyone answered"})
}
