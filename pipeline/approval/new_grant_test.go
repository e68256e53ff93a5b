package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

func openLog(t *testing.T) *audit.Log {
	t.Helper()
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

func TestGrant(t *testing.T) {
	log, bus := openLog(t), event.NewBus()
	listening, _, _ := bus.Listen(event.Filter{Namespace: "team"}, 10, 0)
	events := listening.Events()
	b, _ := newBroker(t, Config{Audit: log, Bus: bus})
	g, err := b.Grant(t.Context(), Question{Kind: Egress, What: "example.com", Namespace: "team", For: time.Minute}, yes)
	if err != nil {
		t.Fatal(err)
	}
	if q := g.Question; q.ID == "" || q.Asked.IsZero() || !q.Expires.Equal(q.Asked) || g.Answer.Scope != ScopeTime ||
		g.Answer.Until.Sub(q.Asked) != time.Minute {
		t.Errorf("got %+v", g)
	}
	if a, ok := b.Granted(Egress, "team", "example.com", "any"); !ok || a.User != "ada" {
		t.Errorf("it does not hold: %+v", a)
	}
	if len(b.Pending()) != 0 || !errors.Is(b.Answer(t.Context(), g.Question.ID, no), ErrAnswered) {
		t.Error("it can be answered")
	}
	var kinds []string
	for row, err := range log.Rows(t.Context(), audit.Filter{Namespace: "team"}) {
		if err != nil {
			t.Fatal(err)
		}
		var d map[string]any
		if err := json.Unmarshal(row.Data, &d); err != nil {
			t.Fatal(err)
		}
		if row.Run != g.Question.ID || d["what"] != "example.com" || row.Kind == "egress.approved" && (d["by"] != "cli" || d["user"] != "ada") {
			t.Errorf("row %s of %s: %s", row.Kind, row.Run, row.Data)
		}
		if row.Kind == "egress.requested" && d["unasked"] != true {
			t.Errorf("the log does not say that nobody asked: %s", row.Data)
		}
		kinds = append(kinds, row.Kind)
	}
	if got := strings.Join(kinds, " "); got != "egress.requested egress.approved" {
		t.Errorf("rows %s", got)
	}
	if first, second := <-events, <-events; first.Name != "egress.requested" || second.Name != "egress.approved" ||
		second.Data["user"] != "ada" {
		t.Errorf("events %+v %+v", first, second)
	}
	if err := b.Revoke(t.Context(), g.Question.ID, no); err != nil || len(b.Grants()) != 0 {
		t.Errorf("taken back: %v", err)
	}
}

func TestGrantIsRefused(t *testing.T) {
	q := Question{Kind: Host, What: "run git *", Namespace: "team"}
	say := func(change func(*Question, *Answer)) (Question, Answer) {
		q, a := q, yes
		change(&q, &a)
		return q, a
	}
	for name, tt := range map[string]struct {
		change func(*Question, *Answer)
		want   string
	}{
		"nobody's":         {func(_ *Question, a *Answer) { a.By = Channel{} }, "not come from a person"},
		"the broker's own": {func(_ *Question, a *Answer) { a.By = nobody() }, "not come from a person"},
		"an agent's":       {func(_ *Question, a *Answer) { a.By = Channel{name: "agent"} }, "not come from a person"},
		"a no":             {func(_ *Question, a *Answer) { a.Allowed = false }, "only approvals can be granted"},
		"no kind":          {func(q *Question, _ *Answer) { q.Kind = "all" }, "not a kind of question"},
		"nothing":          {func(q *Question, _ *Answer) { q.What = " " }, "does not name"},
		"too long":         {func(q *Question, _ *Answer) { q.What = strings.Repeat("a", maxWhat+1) }, "the maximum is"},
		"no text":          {func(q *Question, _ *Answer) { q.What = "a\x00b" }, "not text"},
		"a long name":      {func(q *Question, _ *Answer) { q.Session = strings.Repeat("s", maxWord+1) }, "too long"},
		"a negative time":  {func(q *Question, _ *Answer) { q.For = -1 }, "negative"},
		"over already":     {func(_ *Question, a *Answer) { a.Until = time.Now().Add(-time.Second) }, "ends in the past"},
		"for no run":       {func(_ *Question, a *Answer) { a.Scope = ScopeRun }, "has no run"},
		"for no session":   {func(_ *Question, a *Answer) { a.Scope = ScopeSession }, "has no session"},
		"for ever":         {func(_ *Question, a *Answer) { a.Scope = "forever" }, "not a scope"},
	} {
		t.Run(name, func(t *testing.T) {
			b, log := newBroker(t, Config{})
			q, a := say(tt.change)
			if g, err := b.Grant(t.Context(), q, a); err == nil || !strings.Contains(err.Error(), tt.want) || g.Question.ID != "" {
				t.Errorf("got %+v, %v, want %q", g, err, tt.want)
			}
			if len(b.Grants()) != 0 || len(log.read()) != 0 {
				t.Errorf("it holds, or is in the log: %v", log.read())
			}
		})
	}
	b, _ := newBroker(t, Config{})
	long, a := say(func(q *Question, a *Answer) { q.For, a.Reason = 100*MaxFor, strings.Repeat("r", 2*maxReason) })
	if g, err := b.Grant(t.Context(), long, a); err != nil || g.Answer.Until.Sub(g.Question.Asked) != MaxFor ||
		len(g.Answer.Reason) > maxReason+3 {
		t.Errorf("the bounds of a question are not its: %+v, %v", g, err)
	}
}

// TestGiveIsRecordedFirst: whatever the log can't take does not hold, and nothing holds before it did.
func TestGrantIsRecordedFirst(t *testing.T) {
	b, log := newBroker(t, Config{})
	log.hook = func(audit.Entry) error {
		if len(b.Grants()) != 0 {
			t.Error("it holds before it is in the log")
		}
		return nil
	}
	if _, err := b.Grant(t.Context(), web, yes); err != nil {
		t.Fatal(err)
	}
	log.hook = nil
	log.fail(errors.New("the disk is full"))
	other := web
	other.What = "other.example"
	if _, err := b.Grant(t.Context(), other, yes); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
	if _, ok := b.Granted(Egress, "team", "other.example", ""); ok || len(b.Grants()) != 1 {
		t.Error("what is not in the log holds")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	b2 := New(Config{Audit: openLog(t)})
	defer b2.Close()
	if _, err := b2.Grant(gone, web, yes); err == nil || len(b2.Grants()) != 0 {
		t.Errorf("whoever has gone gave %v, %v", b2.Grants(), err)
	}
	if _, err := New(Config{}).Grant(t.Context(), web, yes); err == nil {
		t.Error("it is given without a log")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	log.fail(nil)
	if _, err := b.Grant(t.Context(), other, yes); !errors.Is(err, errClosed) {
		t.Errorf("a closed broker: %v", err)
	}
}

// TestGiveAnswersWhoWaits: exactly those that ask for it.
func TestGrantAnswersPendingQuestions(t *testing.T) {
	coded, elsewhere, other := web, web, web
	coded.CodeSHA256, elsewhere.Session, other.Namespace = "ab", "another", "others"
	for name, tt := range map[string]struct {
		change func(*Question)
		want   map[*Question]bool
	}{
		"the namespace": {func(q *Question) { q.Session = "" }, map[*Question]bool{&web: true, &coded: true, &elsewhere: true}},
		"the session":   {func(*Question) {}, map[*Question]bool{&web: true, &coded: true}},
		"the code":      {func(q *Question) { q.CodeSHA256 = "ab" }, map[*Question]bool{&coded: true}},
		"another name":  {func(q *Question) { q.What = "*.com" }, nil},
		"another kind":  {func(q *Question) { q.Kind = Package }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, q := range []*Question{&web, &coded, &elsewhere, &other} {
				b, _ := newBroker(t, Config{})
				p := openQuestion(t, b, *q)
				granted := web
				tt.change(&granted)
				g, err := b.Grant(t.Context(), granted, yes)
				if err != nil {
					t.Fatal(err)
				}
				if answered := len(b.Pending()) == 0; answered != tt.want[q] {
					t.Errorf("%+v: answered %v", q, answered)
				}
				if tt.want[q] && !wait(t, p).Allowed {
					t.Errorf("%+v: denied", q)
				}
				if held := b.GrantsFor(granted.Kind, g.Question); len(held) == 0 {
					t.Error("what was given does not hold")
				}
			}
		})
	}
}

// TestGrantAndLess: an answer that comes a moment later does not shorten an earlier grant, and a new grant does.
func TestGrantAndLess(t *testing.T) {
	b, _ := newBroker(t, Config{})
	long, short := web, web
	long.Session, long.For, short.Session, short.For = "", 3*time.Hour, "", time.Minute
	openQuestion(t, b, short)
	g, err := b.Grant(t.Context(), long, yes)
	if err != nil {
		t.Fatal(err)
	}
	if held := b.Grants(); len(held) != 1 || held[0].Question.ID != g.Question.ID {
		t.Errorf("got %+v", held)
	}
	if _, err := b.Grant(t.Context(), short, yes); err != nil {
		t.Fatal(err)
	}
	if held := b.Grants(); len(held) != 1 || held[0].Answer.Until.After(time.Now().Add(time.Hour)) {
		t.Errorf("got %+v", held)
	}
}

// Many ask, answer, give and take back the same at once, while the broker ends.
func TestRaceOfGrants(t *testing.T) {
	log := openLog(t)
	b, _ := newBroker(t, Config{Audit: log, Timeout: time.Minute, Bus: event.NewBus()})
	var all sync.WaitGroup
	for i := range 24 {
		q := web
		q.What, q.Session = fmt.Sprint(i%4), ""
		switch i % 3 {
		case 0:
			all.Go(func() {
				if a, err := b.Ask(t.Context(), q, nil); err != nil || !a.Allowed || a.By != CommandLine() {
					t.Errorf("who asks is told %+v, %v", a, err)
				}
			})
		case 1:
			all.Go(func() {
				if _, err := b.Grant(t.Context(), q, yes); err != nil {
					t.Error(err)
				}
			})
		default:
			all.Go(func() {
				b.Granted(q.Kind, q.Namespace, q.What, "")
				b.GrantsFor(q.Kind, q)
			})
		}
	}
	all.Wait()
	if waits := b.Pending(); len(waits) != 0 {
		t.Errorf("%+v wait though it was given", waits)
	}
	var late sync.WaitGroup
	for i := range 8 {
		late.Go(func() {
			q := web
			q.What = fmt.Sprint("late", i)
			if _, err := b.Grant(t.Context(), q, yes); err != nil && !errors.Is(err, errClosed) {
				t.Error(err)
			}
		})
	}
	b.Close()
	rows := 0
	for range log.Rows(t.Context(), audit.Filter{}) {
		rows++
	}
	late.Wait()
	for range log.Rows(t.Context(), audit.Filter{}) {
		rows--
	}
	if rows != 0 {
		t.Errorf("%d rows were written after the broker had ended", -rows)
	}
}

// TestCloseWaitsForGifts: the log that is closed after the broker has all of them.
func TestCloseWaitsForGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newBroker(t, Config{})
		var over atomic.Bool
		var closing sync.WaitGroup
		log.hook = func(audit.Entry) error {
			closing.Go(func() {
				b.Close()
				over.Store(true)
			})
			synctest.Wait() // a broker that does not wait has ended by now
			if over.Load() {
				t.Error("the broker ended while something was being given")
			}
			return nil
		}
		if _, err := b.Grant(t.Context(), web, yes); err != nil {
			t.Error(err)
		}
		closing.Wait()
	})
}

// If root has to approve, a yes of anybody else has no effect, and a no of anybody else has.
func TestRoot(t *testing.T) {
	b, _ := newBroker(t, Config{Root: true})
	p := openQuestion(t, b, web)
	id := p.Question.ID
	for _, by := range []Channel{CommandLine(), Elicitation(), nobody(), {}} {
		yes := Answer{Allowed: true, By: by}
		if err := b.Answer(t.Context(), id, yes); err == nil || by.isPerson() && !errors.Is(err, ErrRoot) {
			t.Errorf("%v approves: %v", by, err)
		}
		if _, err := b.Grant(t.Context(), web, yes); err == nil || by.isPerson() && !errors.Is(err, ErrRoot) {
			t.Errorf("%v gives: %v", by, err)
		}
	}
	if len(b.Pending()) != 1 || len(b.Grants()) != 0 {
		t.Fatalf("%d wait, %d hold", len(b.Pending()), len(b.Grants()))
	}
	if err := b.Answer(t.Context(), id, Answer{Allowed: true, By: Root()}); err != nil {
		t.Fatal(err)
	}
	if a := wait(t, p); !a.Allowed || a.By.String() != "cli" {
		t.Errorf("got %+v", a)
	}
	if err := b.Revoke(t.Context(), id, Answer{By: CommandLine()}); err != nil {
		t.Error(err)
	}
	if err := b.Answer(t.Context(), openQuestion(t, b, web).Question.ID, no); err != nil {
		t.Errorf("a no of anybody: %v", err)
	}
}
