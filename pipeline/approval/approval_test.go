package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// testLog is a log that can fail, or call somebody in the moment of writing.
type testLog struct {
	mu    sync.Mutex
	kinds []string
	err   error
	hook  func(audit.Entry) error
}

func (b *testLog) Append(ctx context.Context, entries ...audit.Entry) ([]audit.Row, error) {
	b.mu.Lock()
	err, hook := b.err, b.hook
	b.mu.Unlock()
	if hook != nil {
		err = errors.Join(err, hook(entries[0]))
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kinds = append(b.kinds, entries[0].Kind)
	return nil, nil
}

func (b *testLog) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *testLog) read() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.kinds)
}

func newBroker(t testing.TB, c Config) (*Broker, *testLog) {
	t.Helper()
	log := &testLog{}
	if c.Audit == nil {
		c.Audit = log
	}
	b := New(c)
	t.Cleanup(func() { b.Close() })
	return b, log
}

func openQuestion(t testing.TB, b *Broker, q Question) *Pending {
	t.Helper()
	p, err := b.Open(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wait(t testing.TB, p *Pending) Answer {
	t.Helper()
	a, err := p.Wait(t.Context())
	if err != nil {
		t.Error(err)
	}
	return a
}

var (
	web = Question{Kind: Egress, What: "example.com:443", Namespace: "team", Session: "s", Client: "c", Reason: "r"}
	yes = Answer{Allowed: true, By: CommandLine(), User: "ada"}
	no  = Answer{By: Elicitation(), User: "bob", Reason: "not today"}
)

// TestLifeInTheLog has a real log, and checks the part of it that people see.
func TestLifeInTheLog(t *testing.T) {
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	bus := event.NewBus()
	listening, _, _ := bus.Listen(event.Filter{Namespace: "team"}, 10, 0)
	events := listening.Events()
	b, _ := newBroker(t, Config{Audit: log, Bus: bus})
	p := openQuestion(t, b, web)
	if err := b.Answer(t.Context(), strings.ToLower(p.Question.ID), yes); err != nil {
		t.Fatal(err)
	}
	if a := wait(t, p); !a.Allowed || a.User != "ada" {
		t.Errorf("got %+v", a)
	}
	host := openQuestion(t, b, Question{Kind: Host, What: "git status", Namespace: "team", CodeSHA256: "ab", CodeHead: "print(1)"})
	if err := b.Answer(t.Context(), host.Question.ID, no); err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(t.Context(), p.Question.ID, no); err != nil {
		t.Fatal(err)
	}
	var got []string
	for row, err := range log.Rows(t.Context(), audit.Filter{Namespace: "team"}) {
		if err != nil {
			t.Fatal(err)
		}
		var d map[string]any
		if err := json.Unmarshal(row.Data, &d); err != nil {
			t.Fatal(err)
		}
		want, what := p.Question.ID, "example.com:443"
		if strings.HasPrefix(row.Kind, "approval") {
			want, what = host.Question.ID, "git status"
		}
		if row.Run != want || d["what"] != what || strings.Contains(string(row.Data), "print(1)") {
			t.Errorf("row %s of %s: %s", row.Kind, row.Run, row.Data)
		}
		got = append(got, fmt.Sprint(row.Kind, " ", d["by"], " ", d["user"]))
	}
	want := []string{"egress.requested <nil> <nil>", "egress.approved cli ada", "approval.requested <nil> <nil>",
		"approval.denied elicitation bob", "egress.revoked elicitation bob"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	bus.Close()
	var names []string
	for e := range events {
		names = append(names, e.Name)
	}
	if want := []string{event.EgressRequested, event.EgressApproved}; !slices.Equal(names, want) {
		t.Errorf("events: got %v, want %v", names, want)
	}
}

func TestBadQuestions(t *testing.T) {
	b, log := newBroker(t, Config{})
	for name, q := range map[string]Question{
		"nothing":       {},
		"no kind":       {What: "x"},
		"unknown kind":  {Kind: "sudo", What: "x"},
		"no what":       {Kind: Host, What: " \n"},
		"long what":     {Kind: Host, What: strings.Repeat("x", maxWhat+1)},
		"NUL":           {Kind: Host, What: "a\x00b"},
		"no text":       {Kind: Host, What: "a\xff"},
		"negative time": {Kind: Host, What: "x", For: -1},
		"long name":     {Kind: Host, What: "x", Namespace: strings.Repeat("x", maxWord+1)},
	} {
		if _, err := b.Open(t.Context(), q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if rows := log.read(); len(rows) > 0 || len(b.Pending()) > 0 {
		t.Errorf("rows %v", rows)
	}
	q := openQuestion(t, b, Question{Kind: Host, What: "x", For: 1000 * time.Hour, Reason: strings.Repeat("é", maxReason)}).Question
	if q.For != MaxFor || len(q.Reason) > maxReason+3 || !strings.HasSuffix(q.Reason, "é...") {
		t.Errorf("for %v, reason of %d bytes", q.For, len(q.Reason))
	}
}

// Only a channel of ours answers, and no text that came from outside becomes one.
func TestChannels(t *testing.T) {
	b, log := newBroker(t, Config{})
	p := openQuestion(t, b, web)
	for name, a := range map[string]Answer{"zero": {Allowed: true}, "the broker's own": {Allowed: true, By: nobody()},
		"made up": {Allowed: true, By: Channel{name: "agent"}}} {
		if err := b.Answer(t.Context(), p.Question.ID, a); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := b.Revoke(t.Context(), p.Question.ID, a); err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("revoke, %s: %v", name, err)
		}
	}
	for _, text := range []string{`{"allowed":true,"by":"cli"}`, `{"allowed":true,"by":{"name":"cli"}}`,
		`{"allowed":true,"By":{"Name":"cli"}}`} {
		var a Answer
		_ = json.Unmarshal([]byte(text), &a)
		if err := b.Answer(t.Context(), p.Question.ID, a); err == nil {
			t.Errorf("%s became an answer: %+v", text, a)
		}
	}
	if len(b.Pending()) != 1 || len(log.read()) != 1 {
		t.Errorf("%d questions wait, the log has %v", len(b.Pending()), log.read())
	}
	if out, err := json.Marshal(yes); err != nil || string(out) != `{"allowed":true,"by":"cli","user":"ada"}` {
		t.Errorf("%s, %v", out, err)
	}
}

func newID(t testing.TB) string {
	other, _ := newBroker(t, Config{})
	return openQuestion(t, other, web).Question.ID
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newBroker(t, Config{})
		p, began := openQuestion(t, b, web), time.Now()
		a := wait(t, p)
		if took := time.Since(began); a.Allowed || took != DefaultTimeout || a.Reason != "nobody answered within 10m0s" {
			t.Errorf("got %+v after %v", a, took)
		}
		if err := b.Answer(t.Context(), p.Question.ID, yes); !errors.Is(err, ErrUnknown) {
			t.Errorf("an answer after that: %v", err)
		}
		if rows := log.read(); !slices.Equal(rows, []string{"egress.requested", "egress.denied"}) || len(b.Pending()) > 0 {
			t.Errorf("rows %v", rows)
		}
		if again := openQuestion(t, b, web); again.Question.ID == p.Question.ID || len(b.Pending()) != 1 {
			t.Error("what nobody answered can't be asked again")
		}
		// The log fails: it is a denial all the same.
		log.fail(errors.New("disk full"))
		if a := wait(t, openQuestion(t, b, web)); a.Allowed || strings.Contains(a.Reason, "disk full") || len(b.Pending()) > 0 {
			t.Errorf("got %+v", a)
		}
	})
}

// A clock that was set forward, or a machine that slept: the timer did not fire, the time is up.
func TestTimeIsUpBeforeTheTimer(t *testing.T) {
	now := time.Now()
	b, _ := newBroker(t, Config{Now: func() time.Time { return now }})
	p := openQuestion(t, b, web)
	now = p.Question.Expires
	if err := b.Answer(t.Context(), p.Question.ID, yes); !errors.Is(err, ErrUnknown) || len(b.Pending()) > 0 {
		t.Errorf("got %v", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	b, _ := newBroker(t, Config{})
	p := openQuestion(t, b, web)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a, err := p.Wait(ctx); !errors.Is(err, context.Canceled) || a.Allowed {
		t.Errorf("got %+v, %v", a, err)
	}
	if err := b.Answer(t.Context(), p.Question.ID, yes); err != nil {
		t.Error(err)
	}
	if a, err := p.Wait(ctx); err != nil || !a.Allowed {
		t.Errorf("an answer that is there: %+v, %v", a, err)
	}
}

func TestRoom(t *testing.T) {
	b, _ := newBroker(t, Config{Room: 3})
	q := web
	var last *Pending
	for i := range 3 {
		q.What, q.Namespace, q.Client = fmt.Sprint(i), fmt.Sprint(i), fmt.Sprint(i)
		last = openQuestion(t, b, q)
	}
	q.What, q.Namespace, q.Client = "one more", "more", "more"
	if _, err := b.Open(t.Context(), q); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	openQuestion(t, b, last.Question)
	if err := b.Answer(t.Context(), last.Question.ID, no); err != nil {
		t.Fatal(err)
	}
	openQuestion(t, b, q)
}

// One identity can't fill the room of all, whatever namespaces it names, and one namespace can't either, whatever
// identities ask in it.
func TestShare(t *testing.T) {
	for name, of := range map[string]func(i int) (namespace, client string){
		"of a namespace": func(i int) (string, string) { return "n", fmt.Sprint(i) },
		"of an identity": func(i int) (string, string) { return fmt.Sprint(i), "agent" },
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := newBroker(t, Config{})
			for i := range DefaultRoom {
				q := web
				q.What = fmt.Sprint(i)
				q.Namespace, q.Client = of(i)
				if _, err := b.Open(t.Context(), q); (err != nil) != (i >= DefaultRoom/share) || err != nil && !errors.Is(err, ErrFull) {
					t.Fatalf("question %d: %v", i, err)
				}
			}
			q := web
			q.Namespace, q.Client = "other", "other"
			openQuestion(t, b, q)
		})
	}
}

// Nothing is asked, and nothing approved, that the log does not have.
func TestLogFails(t *testing.T) {
	full := errors.New("disk full")
	b, log := newBroker(t, Config{})
	log.fail(full)
	if _, err := b.Open(t.Context(), web); !errors.Is(err, full) || len(b.Pending()) > 0 {
		t.Errorf("got %v", err)
	}
	log.fail(nil)
	p := openQuestion(t, b, web)
	log.fail(full)
	if err := b.Answer(t.Context(), p.Question.ID, yes); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if _, ok := b.Granted(web.Kind, web.Namespace, web.What, ""); ok || len(b.Pending()) != 1 {
		t.Error("an answer that is not recorded had an effect")
	}
	log.fail(nil)
	if err := b.Answer(t.Context(), p.Question.ID, yes); err != nil {
		t.Error(err)
	}
	log.fail(full)
	if err := b.Revoke(t.Context(), p.Question.ID, no); !errors.Is(err, ErrUnrecorded) || !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	if _, ok := b.Granted(web.Kind, web.Namespace, web.What, ""); ok {
		t.Error("it still holds")
	}
	log.fail(nil)
	other := web
	other.What = "other.example"
	p = openQuestion(t, b, other)
	log.fail(full)
	if err := b.Answer(t.Context(), p.Question.ID, no); !errors.Is(err, ErrUnrecorded) || !errors.Is(err, full) {
		t.Errorf("a no: %v", err)
	}
	if a := wait(t, p); a.Allowed || a.By != no.By || len(b.Pending()) != 0 {
		t.Errorf("a no has no effect: %+v", a)
	}
	if _, err := New(Config{}).Open(t.Context(), web); err == nil {
		t.Error("it asks without a log")
	}
}

// In the moment of writing, a question can't be seen yet, and an answer has no effect yet.
func TestRecordedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{}
		b, _ := newBroker(t, Config{Audit: log})
		log.hook = func(e audit.Entry) error {
			if err := b.Answer(t.Context(), e.Run, yes); !errors.Is(err, ErrUnknown) || len(b.Pending()) > 0 {
				t.Errorf("before the question is recorded: %v, %v", err, b.Pending())
			}
			return nil
		}
		p := openQuestion(t, b, web)
		log.hook = func(e audit.Entry) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := b.Answer(ctx, e.Run, no); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a second answer while the first one is written: %v", err)
			}
			if _, granted := b.Granted(web.Kind, web.Namespace, web.What, ""); granted || p.w.isDecided() {
				t.Error("an answer that is not recorded yet has an effect")
			}
			return nil
		}
		if err := b.Answer(t.Context(), p.Question.ID, yes); err != nil || !wait(t, p).Allowed {
			t.Error(err)
		}
	})
}

// The first caller gives up while the log is slow; the second caller still gets its question.
func TestFirstGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{}
		b, _ := newBroker(t, Config{Audit: log})
		gone, first := make(chan bool), make(chan error)
		log.hook = func(audit.Entry) error {
			log.hook = nil
			<-gone
			return context.Canceled
		}
		go func() {
			_, err := b.Open(t.Context(), web)
			first <- err
		}()
		synctest.Wait()
		second := make(chan *Pending)
		go func() {
			p, _ := b.Open(t.Context(), web)
			second <- p
		}()
		synctest.Wait()
		close(gone)
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first one: %v", err)
		}
		if p := <-second; p == nil || len(b.Pending()) != 1 {
			t.Error("the second one has no question")
		}
	})
}

// An answer that is being written when the time is up counts.
func TestAnswerJustBeforeTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &testLog{}
		b, _ := newBroker(t, Config{Audit: log})
		p := openQuestion(t, b, web)
		log.hook = func(audit.Entry) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		time.Sleep(DefaultTimeout - time.Second)
		if err := b.Answer(t.Context(), p.Question.ID, yes); err != nil || !wait(t, p).Allowed {
			t.Error(err)
		}
		synctest.Wait()
		if rows := log.read(); !slices.Equal(rows, []string{"egress.requested", "egress.approved"}) {
			t.Errorf("rows %v", rows)
		}
	})
}

func TestClose(t *testing.T) {
	b, log := newBroker(t, Config{})
	p := openQuestion(t, b, web)
	b.Close()
	b.Close()
	if a := wait(t, p); a.Allowed || !strings.Contains(a.Reason, "server shut down") {
		t.Errorf("got %+v", a)
	}
	if _, err := b.Open(t.Context(), web); err == nil {
		t.Error("a closed broker asks")
	}
	if rows := log.read(); !slices.Equal(rows, []string{"egress.requested", "egress.denied"}) {
		t.Errorf("rows %v", rows)
	}
}

// TestWatch: a watcher is told of each question once it can be answered.
func TestWatch(t *testing.T) {
	seen := make(chan Question, 10)
	b, log := newBroker(t, Config{Watch: func(q Question) { seen <- q }})
	p := openQuestion(t, b, web)
	openQuestion(t, b, web) // the same question
	one := <-seen
	if one != p.Question || len(seen) != 0 {
		t.Errorf("got %+v, and %d more", one, len(seen))
	}
	if err := b.Answer(t.Context(), one.ID, yes); err != nil {
		t.Fatal(err)
	}
	log.fail(errors.New("the disk is full"))
	other := web
	other.What = "other.example"
	if _, err := b.Open(t.Context(), other); err == nil || len(seen) != 0 {
		t.Errorf("what can't be answered was shown: %v", err)
	}
}
