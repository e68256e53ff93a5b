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

// quiet is how long a person's no answers the same question when it is asked again.
const quiet = time.Minute

// grant is an answer that is remembered, until answer.Until.
type grant struct {
	q      Question
	answer Answer
}

// again is the question as if it had been asked and answered just now.
func (g grant) again() *asked {
	w := &asked{q: g.q, recorded: make(chan struct{}), done: make(chan struct{}), answer: g.answer}
	close(w.recorded)
	close(w.done)
	return w
}

// tidy forgets what has ended. The caller holds the lock.
func (b *Broker) tidy() {
	now := b.c.Now()
	ended := func(_ key, g grant) bool { return !now.Before(g.answer.Until) }
	maps.DeleteFunc(b.given, ended)
	maps.DeleteFunc(b.denied, ended)
}

// lookup finds the approval that covers k. The caller holds the lock.
func (b *Broker) lookup(k key) (grant, bool) {
	all := k
	all.code = ""
	for _, k := range []key{k, all} {
		if g, ok := b.given[k]; ok && b.c.Now().Before(g.answer.Until) {
			return g, true
		}
	}
	return grant{}, false
}

// Granted says whether somebody has approved exactly this, for this code or for all code of the
// namespace, and returns what they said.
func (b *Broker) Granted(kind, namespace, what, codeSHA256 string) (Answer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.lookup(key{kind, namespace, what, codeSHA256})
	return g.answer, ok
}

// Grant is an approval that holds.
type Grant struct {
	Question Question `json:"question"`
	Answer   Answer   `json:"answer"`
}

// Grants returns the approvals that hold, the oldest question first.
func (b *Broker) Grants() []Grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tidy()
	list := make([]Grant, 0, len(b.given))
	for _, g := range b.given {
		list = append(list, Grant{g.q, g.answer})
	}
	slices.SortFunc(list, func(x, y Grant) int { return x.Question.Asked.Compare(y.Question.Asked) })
	return list
}

// Revoke takes an approval back, by the id of its question: ErrUnknown if it does not hold. by says
// who does it. From then on nothing is granted by it, also if the error says that this could not be
// recorded; what runs already goes on.
func (b *Broker) Revoke(ctx context.Context, id string, by Answer) error {
	if by.By != Elicitation() && by.By != CommandLine() {
		return errors.New("revoke approval: it came from nowhere that a person answers from")
	}
	g, ok := b.takeBack(strings.ToUpper(id))
	if !ok {
		return fmt.Errorf("revoke approval %.40q: %w", id, ErrUnknown)
	}
	by.Allowed, by.Until = false, time.Time{}
	by.User, by.Reason = clip(by.User), clip(by.Reason)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.record(ctx, g.q, revoked, by.facts()); err != nil {
		return fmt.Errorf("revoke approval %s: it holds no more, but: %w", g.q.ID, err)
	}
	return nil
}

func (b *Broker) takeBack(id string) (grant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tidy()
	for k, g := range b.given {
		if g.q.ID == id {
			delete(b.given, k)
			return g, true
		}
	}
	return grant{}, false
}
