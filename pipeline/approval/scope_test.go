package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// questionOf is web as a run of a session asks for it.
func questionOf(run, session string) Question {
	q := web
	q.Run, q.Session = run, session
	return q
}

func scoped(scope string) Answer {
	a := yes
	a.Scope = scope
	return a
}

func TestScopes(t *testing.T) {
	for scope, covered := range map[string]map[string]bool{
		"":           {"same run": true, "same session": true, "other session": true, "nobody's": true},
		ScopeTime:    {"same run": true, "same session": true, "other session": true, "nobody's": true},
		ScopeSession: {"same run": true, "same session": true},
		ScopeRun:     {"same run": true},
	} {
		t.Run(scope, func(t *testing.T) {
			b, _ := newBroker(t, Config{})
			p := openQuestion(t, b, questionOf("r1", "s1"))
			if err := b.Answer(t.Context(), p.Question.ID, scoped(scope)); err != nil {
				t.Fatal(err)
			}
			for name, tt := range map[string]struct {
				q    Question
				want bool
			}{
				"same run":        {questionOf("r1", "s1"), covered["same run"]},
				"same session":    {questionOf("r2", "s1"), covered["same session"]},
				"other session":   {questionOf("r3", "s2"), covered["other session"]},
				"nobody's":        {questionOf("", ""), covered["nobody's"]},
				"other namespace": {Question{Kind: Egress, What: web.What, Namespace: "other", Run: "r1", Session: "s1"}, false},
				"other name":      {Question{Kind: Egress, What: "example.org:443", Namespace: "team", Run: "r1", Session: "s1"}, false},
				"other kind":      {Question{Kind: Host, What: web.What, Namespace: "team", Run: "r1", Session: "s1"}, false},
			} {
				held := b.GrantsFor(tt.q.Kind, tt.q)
				if tt.q.What != web.What { // a policy is made of all that holds: What is for the policy to match
					held = slices.DeleteFunc(held, func(g Grant) bool { return g.Question.What != tt.q.What })
				}
				if (len(held) == 1) != tt.want {
					t.Errorf("%s: held %v, want %v", name, held, tt.want)
				}
				p := openQuestion(t, b, tt.q)
				if p.w.isDecided() != tt.want {
					t.Errorf("%s: asked, it is answered: %v, want %v", name, p.w.isDecided(), tt.want)
				}
			}
			if g := b.Grants(); len(g) != 1 || g[0].Answer.Scope == "" || g[0].Answer.Until.IsZero() {
				t.Errorf("got %+v", g)
			}
			if _, ok := b.Granted(web.Kind, web.Namespace, web.What, ""); ok != covered["nobody's"] {
				t.Errorf("granted to all: %v", ok)
			}
			if err := b.Revoke(t.Context(), p.Question.ID, no); err != nil {
				t.Fatal(err)
			}
			if h := b.GrantsFor(Egress, questionOf("r1", "s1")); len(h) != 0 {
				t.Errorf("it holds after it was taken back: %+v", h)
			}
		})
	}
}

// An answer can't have a wider scope than the question.
func TestNoWiderThanAsked(t *testing.T) {
	for _, tt := range []struct {
		name  string
		q     Question
		scope string
		want  error
	}{
		{"a run that there is not", questionOf("", "s"), ScopeRun, ErrScope},
		{"a session that there is not", questionOf("r", ""), ScopeSession, ErrScope},
		{"no scope that we know", questionOf("r", "s"), "always", ErrScope},
		{"in capitals", questionOf("r", "s"), "RUN", ErrScope},
		{"a run", questionOf("r", ""), ScopeRun, nil},
		{"a session", questionOf("", "s"), ScopeSession, nil},
	} {
		b, log := newBroker(t, Config{})
		p := openQuestion(t, b, tt.q)
		err := b.Answer(t.Context(), p.Question.ID, scoped(tt.scope))
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if tt.want != nil && (len(b.Grants()) > 0 || len(b.Pending()) != 1 || len(log.read()) != 1) {
			t.Errorf("%s: it had an effect: %v", tt.name, log.read())
		}
		long := scoped("")
		long.Until = time.Now().Add(MaxFor)
		if err := b.Answer(t.Context(), p.Question.ID, long); tt.want != nil && (err != nil || time.Until(wait(t, p).Until) > DefaultFor) {
			t.Errorf("%s: it holds for longer than was asked: %v", tt.name, err)
		}
	}
	b, _ := newBroker(t, Config{})
	no := no
	no.Scope, no.Until = ScopeRun, time.Now().Add(time.Hour)
	p := openQuestion(t, b, questionOf("", ""))
	if err := b.Answer(t.Context(), p.Question.ID, no); err != nil {
		t.Errorf("a no needs no scope: %v", err)
	}
	if a := wait(t, p); a.Scope != "" || !a.Until.IsZero() {
		t.Errorf("got %+v", a)
	}
}

// Two runs wait for one question; an approval for the first leaves the second to ask its own.
func TestTwoRuns(t *testing.T) {
	for scope, asksAgain := range map[string]bool{ScopeRun: true, ScopeSession: true, ScopeTime: false} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := newBroker(t, Config{})
			var mu sync.Mutex
			presented, answers := map[string]int{}, map[string]Answer{}
			for _, run := range []string{"r1", "r1", "r1", "r2", "r2"} {
				q := questionOf(run, "session of "+run)
				go func() {
					a, err := b.Ask(t.Context(), q, func(ctx context.Context, p *Pending) {
						mu.Lock()
						presented[p.Question.ID]++
						mu.Unlock()
						<-ctx.Done()
					})
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					answers[run] = a
					mu.Unlock()
				}()
				synctest.Wait() // r1 is the first
			}
			all := b.Pending()
			if len(all) != 1 || all[0].Run != "r1" {
				t.Fatalf("%d questions wait", len(all))
			}
			if err := b.Answer(t.Context(), all[0].ID, scoped(scope)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_, done := answers["r2"]
			if !answers["r1"].Allowed || done == asksAgain || answers["r2"].Allowed == asksAgain {
				t.Errorf("%s: got %+v", scope, answers)
			}
			if !asksAgain {
				return
			}
			if held := b.GrantsFor(Egress, questionOf("r2", "session of r2")); len(held) > 0 {
				t.Errorf("%s: the second run has %+v", scope, held)
			}
			next := b.Pending()
			if len(next) != 1 || next[0].Run != "r2" || next[0].ID == all[0].ID || presented[all[0].ID] != 1 || presented[next[0].ID] != 1 {
				t.Fatalf("%s: %+v wait, shown %v", scope, next, presented)
			}
			if err := b.Answer(t.Context(), next[0].ID, no); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if a, ok := answers["r2"]; !ok || a.Allowed || a.User != "bob" {
				t.Errorf("%s: got %+v", scope, a)
			}
		})
	}
}

// Wait never tells a yes to somebody else's question.
func TestWaitForAnothersAnswer(t *testing.T) {
	b, _ := newBroker(t, Config{})
	p1, p2 := openQuestion(t, b, questionOf("r1", "s")), openQuestion(t, b, questionOf("r2", "s"))
	if p1.Question.ID != p2.Question.ID || p2.Question.Run != "r1" {
		t.Fatalf("two questions: %+v", p2.Question)
	}
	if err := b.Answer(t.Context(), p2.Question.ID, scoped(ScopeRun)); err != nil {
		t.Fatal(err)
	}
	if a, err := p2.Wait(t.Context()); !errors.Is(err, ErrOther) || a.Allowed {
		t.Errorf("got %+v, %v", a, err)
	}
	if a := wait(t, p1); !a.Allowed {
		t.Errorf("got %+v", a)
	}
}

// If the caller that presents a question gives up, the next caller presents it. A question that a person put aside is
// not presented again.
func TestQuestionIsPresentedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBroker(t, Config{})
		var mu sync.Mutex
		var seen []string
		ask := func(ctx context.Context, name string, stays bool) {
			go b.Ask(ctx, questionOf("r", "s"), func(ctx context.Context, _ *Pending) {
				mu.Lock()
				seen = append(seen, name)
				mu.Unlock()
				if stays {
					<-ctx.Done()
				}
			})
			synctest.Wait()
		}
		ctx, hangUp := context.WithCancel(t.Context())
		ask(ctx, "first", true)
		ask(t.Context(), "second", false)
		ask(t.Context(), "third", true)
		hangUp()
		synctest.Wait()
		if want := []string{"first", "second"}; !slices.Equal(seen, want) && !slices.Equal(seen, []string{"first", "third"}) {
			t.Errorf("got %v, want %v", seen, want)
		}
		b.Close()
	})
}

func TestForget(t *testing.T) {
	b, log := newBroker(t, Config{})
	for i, scope := range []string{ScopeRun, ScopeSession, ScopeTime} {
		q := questionOf("r", "s")
		q.What = fmt.Sprint(i)
		if err := b.Answer(t.Context(), openQuestion(t, b, q).Question.ID, scoped(scope)); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (all []string) {
		for _, g := range b.Grants() {
			all = append(all, g.Answer.Scope)
		}
		return all
	}
	for _, tt := range []struct {
		id   string
		want []string
	}{
		{"", []string{ScopeRun, ScopeSession, ScopeTime}},
		{"another", []string{ScopeRun, ScopeSession, ScopeTime}},
		{"r", []string{ScopeSession, ScopeTime}},
		{"s", []string{ScopeTime}},
		{"s", []string{ScopeTime}},
	} {
		if b.Forget(tt.id); !slices.Equal(left(), tt.want) {
			t.Errorf("after %q: left are %v, want %v", tt.id, left(), tt.want)
		}
	}
	// A question of a run that has ended is withdrawn, and the run's no with it.
	q := questionOf("r2", "s2")
	denied := openQuestion(t, b, q)
	if err := b.Answer(t.Context(), denied.Question.ID, no); err != nil {
		t.Fatal(err)
	}
	q.What = "open"
	p, other := openQuestion(t, b, q), q
	other.Run = "r3"
	p3 := openQuestion(t, b, other)
	b.Forget("r2")
	if a := wait(t, p); a.Allowed || !strings.Contains(a.Reason, "the run ended") {
		t.Errorf("got %+v", a)
	}
	if a, err := p3.Wait(t.Context()); !errors.Is(err, ErrOther) {
		t.Errorf("another run is told %+v, %v", a, err)
	}
	if p := openQuestion(t, b, other); p.w.isDecided() || p.Question.Run != "r3" {
		t.Errorf("it can't ask again: %+v", p.Question)
	}
	if err := b.Answer(t.Context(), p.Question.ID, scoped(ScopeRun)); !errors.Is(err, ErrUnknown) {
		t.Errorf("an answer after that: %v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.denied {
		if k.scope == ScopeRun {
			t.Errorf("a no to %s is left", k.id)
		}
	}
	if rows := log.read(); rows[len(rows)-2] != "egress.denied" {
		t.Errorf("rows %v", rows)
	}
}

// A run that ends while its question, or the yes to it, is being written.
func TestForgetMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{}
		b, _ := newBroker(t, Config{Audit: log})
		log.hook = func(audit.Entry) error {
			log.hook = nil
			b.Forget("r")
			return nil
		}
		if a := wait(t, openQuestion(t, b, questionOf("r", ""))); a.Allowed || !strings.Contains(a.Reason, "the run ended") {
			t.Errorf("got %+v", a)
		}
		p := openQuestion(t, b, questionOf("r2", ""))
		log.hook = func(audit.Entry) error {
			log.hook = nil
			b.Forget("r2")
			return nil
		}
		if err := b.Answer(t.Context(), p.Question.ID, scoped(ScopeRun)); err != nil {
			t.Error(err)
		}
		if synctest.Wait(); len(b.Grants()) > 0 {
			t.Errorf("left is %+v", b.Grants())
		}
	})
}

// A run is told no once: neither a person's no nor silence is asked for again and again.
func TestNoToARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBroker(t, Config{})
		if err := b.Answer(t.Context(), openQuestion(t, b, questionOf("r1", "")).Question.ID, no); err != nil {
			t.Fatal(err)
		}
		time.Sleep(quiet)
		if a := wait(t, openQuestion(t, b, questionOf("r1", ""))); a.Allowed || a.Reason != no.Reason || len(b.Pending()) != 0 {
			t.Errorf("the same run: %+v", a)
		}
		p, began := openQuestion(t, b, questionOf("r2", "")), time.Now()
		if p.w.isDecided() {
			t.Error("another run can't ask")
		}
		wait(t, p)
		wait(t, openQuestion(t, b, questionOf("r2", "")))
		if took := time.Since(began); took != DefaultTimeout {
			t.Errorf("silence was waited for %v", took)
		}
		if p := openQuestion(t, b, questionOf("r3", "")); p.w.isDecided() {
			t.Error("silence to one run was taken for an answer to another")
		}
		// A yes afterwards counts for it, too.
		if err := b.Answer(t.Context(), b.Pending()[0].ID, yes); err != nil {
			t.Fatal(err)
		}
		if a := wait(t, openQuestion(t, b, questionOf("r1", ""))); !a.Allowed {
			t.Errorf("got %+v", a)
		}
	})
}

// One run can't fill the room of all.
func TestRoomOfARun(t *testing.T) {
	b, _ := newBroker(t, Config{})
	for i := range 2 * maxOfRun {
		q := questionOf("r", "")
		q.What = fmt.Sprint(i)
		if _, err := b.Open(t.Context(), q); (err != nil) != (i >= maxOfRun) || err != nil && !errors.Is(err, ErrFull) {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	q := questionOf("r2", "")
	q.What = "2"
	openQuestion(t, b, q)
	q.What = "other"
	openQuestion(t, b, q)
	openQuestion(t, b, web)
}

// Many runs of two sessions ask, answer and end at once: no run gets the answer to another run.
func TestScopeRace(t *testing.T) {
	b, _ := newBroker(t, Config{Timeout: 200 * time.Millisecond})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			run := fmt.Sprint("r", i)
			q := questionOf(run, fmt.Sprint("s", i%2))
			defer b.Forget(run)
			a, err := b.Ask(t.Context(), q, func(ctx context.Context, p *Pending) {
				err := b.Answer(ctx, p.Question.ID, Answer{Allowed: true, By: CommandLine(), Scope: ScopeRun, User: p.Question.Run})
				if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrAnswered) && ctx.Err() == nil {
					t.Error(err)
				}
			})
			if err != nil || a.Allowed && a.User != run {
				t.Errorf("run %s got %+v, %v", run, a, err)
			}
		})
	}
	all.Wait()
	if g := b.Grants(); len(g) > 0 {
		t.Errorf("left are %+v", g)
	}
}
