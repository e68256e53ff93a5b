package approval

import (
	"errors"
	"testing"
	"time"
)

func TestGranted(t *testing.T) {
	b, _ := newBroker(t, Config{})
	bound := web
	bound.What, bound.CodeSHA256 = "bound.example", "ab12"
	for _, q := range []Question{web, bound, {Kind: Host, What: "git *", Namespace: "team"}} {
		if err := b.Answer(t.Context(), openQuestion(t, b, q).Question.ID, yes); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		kind, namespace, what, code string
		want                        bool
	}{
		{Egress, "team", "example.com:443", "", true},
		{Egress, "team", "example.com:443", "any code", true},
		{Egress, "team", "example.com", "", false},
		{Egress, "team", "Example.com:443", "", false},
		{Egress, "team", "*", "", false},
		{Egress, "other", "example.com:443", "", false},
		{Egress, "", "example.com:443", "", false},
		{Host, "team", "example.com:443", "", false},
		{Egress, "team", "bound.example", "ab12", true},
		{Egress, "team", "bound.example", "", false},
		{Egress, "team", "bound.example", "ab13", false},
		{Host, "team", "git *", "", true},
		{Host, "team", "git push", "", false},
		{Package, "team", "git *", "", false},
	} {
		if a, got := b.Granted(tt.kind, tt.namespace, tt.what, tt.code); got != tt.want || a.Allowed != tt.want {
			t.Errorf("%+v: got %v %+v", tt, got, a)
		}
	}
	if p := openQuestion(t, b, web); !wait(t, p).Allowed || len(b.Pending()) != 0 {
		t.Error("what is granted was asked again")
	}
	if n := len(b.Grants()); n != 3 {
		t.Errorf("%d grants, want 3", n)
	}
	if err := b.Revoke(t.Context(), b.Grants()[0].Question.ID, no); err != nil {
		t.Error(err)
	}
	if _, ok := b.Granted(Egress, "team", "example.com:443", ""); ok {
		t.Error("it holds after it was revoked")
	}
	if err := b.Revoke(t.Context(), newID(t), no); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestUntil(t *testing.T) {
	for _, tt := range []struct {
		name       string
		ask, until time.Duration // until is after the answer; 0 says nothing
		want       time.Duration
	}{
		{"the default", 0, 0, time.Hour},
		{"what was asked", 3 * time.Hour, 0, 3 * time.Hour},
		{"shorter than asked", time.Hour, time.Minute, time.Minute},
		{"longer than asked", time.Hour, 2 * time.Hour, time.Hour},
		{"longer than the longest", 48 * time.Hour, 48 * time.Hour, MaxFor},
		{"over already", time.Hour, -time.Minute, -time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			b, _ := newBroker(t, Config{Now: func() time.Time { return now }})
			q := web
			q.For = tt.ask
			p := openQuestion(t, b, q)
			now = now.Add(time.Minute)
			a := yes
			if tt.until != 0 {
				a.Until = now.Add(tt.until)
			}
			if err := b.Answer(t.Context(), p.Question.ID, a); err != nil {
				t.Fatal(err)
			}
			if got := wait(t, p).Until.Sub(now); got != tt.want {
				t.Errorf("it holds for %v, want %v", got, tt.want)
			}
			now = now.Add(max(tt.want-1, 0))
			if _, ok := b.Granted(q.Kind, q.Namespace, q.What, ""); ok != (tt.want > 0) {
				t.Errorf("a moment before its end: %v", ok)
			}
			now = now.Add(1)
			if _, ok := b.Granted(q.Kind, q.Namespace, q.What, ""); ok || len(b.Grants()) > 0 {
				t.Error("it holds after its end")
			}
		})
	}
}

func TestTheSameQuestion(t *testing.T) {
	b, log := newBroker(t, Config{})
	other := web
	other.Session, other.Reason, other.For = "another", "please", 2*time.Hour
	p1, p2 := openQuestion(t, b, web), openQuestion(t, b, other)
	code := web
	code.CodeSHA256 = "ab"
	p3 := openQuestion(t, b, code)
	if p1.Question != p2.Question || p1.Question.ID == p3.Question.ID || len(b.Pending()) != 2 {
		t.Errorf("%d questions wait", len(b.Pending()))
	}
	if err := b.Answer(t.Context(), p1.Question.ID, no); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Pending{p1, p2} {
		if a := wait(t, p); a.Allowed || a.User != "bob" {
			t.Errorf("got %+v", a)
		}
	}
	if err := b.Answer(t.Context(), p2.Question.ID, yes); !errors.Is(err, ErrAnswered) {
		t.Errorf("a second answer: %v", err)
	}
	if rows := log.read(); len(rows) != 3 {
		t.Errorf("rows %v", rows)
	}
}

// An agent that asks again after a no is not to wear people down.
func TestNoStandsForAWhile(t *testing.T) {
	now := time.Now()
	b, log := newBroker(t, Config{Now: func() time.Time { return now }})
	if err := b.Answer(t.Context(), openQuestion(t, b, web).Question.ID, no); err != nil {
		t.Fatal(err)
	}
	now = now.Add(quiet - 1)
	if a := wait(t, openQuestion(t, b, web)); a.Allowed || a.Reason != no.Reason || len(log.read()) != 2 {
		t.Errorf("got %+v, rows %v", a, log.read())
	}
	if _, ok := b.Granted(Egress, "team", "example.com:443", ""); ok {
		t.Error("a no was granted")
	}
	now = now.Add(1)
	if openQuestion(t, b, web); len(b.Pending()) != 1 {
		t.Error("it can't be asked again")
	}
}

// Granted reports whether a person has approved exactly this, for this code or for all code of the namespace, in
// whatever run and session, and returns the person's answer.
func (b *Broker) Granted(kind, namespace, what, codeSHA256 string) (Answer, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := Question{Kind: kind, Namespace: namespace, What: what}
	g, ok := b.findGrant(b.granted, q, codeSHA256, "")
	return g.Answer, ok
}
