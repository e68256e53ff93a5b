package outbound

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

type testLog struct{}

func (testLog) Append(context.Context, ...audit.Entry) ([]audit.Row, error) { return nil, nil }

func policy(t *testing.T, deny []string, allow ...string) egress.Policy {
	t.Helper()
	p, err := egress.NewPolicy(allow, deny)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// approved returns a broker in which a person has approved q for a scope.
func approved(t *testing.T, q approval.Question, scope string) *approval.Broker {
	t.Helper()
	b := approval.New(approval.Config{Audit: testLog{}})
	t.Cleanup(func() { b.Close() })
	if q.What == "" {
		return b
	}
	q.Kind, q.Namespace = approval.Egress, "team"
	p, err := b.Open(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Answer(t.Context(), p.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine(), Scope: scope}); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDecide has names that the operator allows, names of a run, earlier approvals, and a person who says yes.
func TestDecide(t *testing.T) {
	type list []string
	web := approval.Question{What: "web.test"}
	tests := []struct {
		name            string
		allow, deny     list
		session, run    list // what was named; nil is nothing
		approved        approval.Question
		scope           string
		namespace, code string
		ask             bool
		want            string // the beginning of the reason, or "no"
	}{
		{name: "nothing", want: "no"},
		{name: "operator", allow: list{"web.test"}, want: "allowed by"},
		{name: "another name", allow: list{"other.test"}, want: "no"},
		{name: "named and allowed", allow: list{"web.test", "x.test"}, run: list{"web.test"}, want: "allowed by"},
		{name: "allowed, another named", allow: list{"web.test", "x.test"}, run: list{"x.test"}, want: "no"},
		{name: "named, not allowed", run: list{"web.test"}, want: "no"},
		{name: "named nothing", allow: list{"web.test"}, run: list{}, want: "no"},
		{name: "session named another", allow: list{"web.test"}, session: list{"x.test"}, want: "no"},
		{name: "session named another, run this", allow: list{"web.test"}, session: list{"x.test"}, run: list{"web.test"}, want: "allowed by"},
		{name: "approved", approved: web, scope: approval.ScopeTime, want: "a person approved"},
		{name: "approved, another named", run: list{"x.test"}, approved: web, want: "no"},
		{name: "approved, named", run: list{"web.test"}, approved: web, want: "a person approved"},
		{name: "approved, nothing named", run: list{}, approved: web, want: "no"},
		{name: "approved and denied", deny: list{"web.test"}, approved: web, want: "no"},
		{name: "approved for another namespace", approved: web, namespace: "other", want: "no"},
		{name: "for this code", approved: approval.Question{What: "web.test", CodeSHA256: "aa"}, code: "aa", want: "a person approved"},
		{name: "for other code", approved: approval.Question{What: "web.test", CodeSHA256: "aa"}, code: "bb", want: "no"},
		{name: "for this run", approved: approval.Question{What: "web.test", Run: "R"}, scope: approval.ScopeRun, want: "a person approved"},
		{name: "for another run", approved: approval.Question{What: "web.test", Run: "Q"}, scope: approval.ScopeRun, want: "no"},
		{name: "for this session", approved: approval.Question{What: "web.test", Session: "S"}, scope: approval.ScopeSession,
			want: "a person approved"},
		{name: "for another session", approved: approval.Question{What: "web.test", Session: "T"}, scope: approval.ScopeSession, want: "no"},
		{name: "asked", ask: true, want: "approved by"},
		{name: "asked, though denied", deny: list{"web.test"}, ask: true, want: "no"},
		{name: "asked, another named", run: list{"x.test"}, ask: true, want: "no"},
		{name: "asked, named", run: list{"web.test"}, ask: true, want: "approved by"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := approved(t, tt.approved, tt.scope)
			within := func(names list) *egress.Policy {
				if names == nil {
					return nil
				}
				p := policy(t, tt.deny, names...)
				return &p
			}
			c := Config{Policy: policy(t, tt.deny, tt.allow...), Bounds: Bounds{Within: within(tt.session)}, Ask: tt.ask, Approvals: b,
				Namespace: "team", Session: "S"}
			if tt.namespace != "" {
				c.Namespace = tt.namespace
			}
			o, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			o.SetScope(Scope{Run: "R", Code: tt.code, Within: within(tt.run), Ask: func(ctx context.Context, p *approval.Pending) {
				asked++
				if err := b.Answer(ctx, p.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
					t.Error(err)
				}
			}})
			any, d := o.decide(t.Context(), "web.test", 0), o.decide(t.Context(), "web.test", 443)
			if d.Allowed != (tt.want != "no") || any.Allowed != d.Allowed || d.Allowed && !strings.HasPrefix(d.Reason, tt.want) {
				t.Errorf("got %+v, and for any port %+v", d, any)
			}
			if tt.ask && d.Allowed != (asked == 1) {
				t.Errorf("asked %d times", asked)
			}
			if d := o.decide(t.Context(), "127.0.0.1", 443); d.Allowed {
				t.Errorf("an address: %+v", d)
			}
		})
	}
}

// TestClear has a value travel unencrypted only to a name that was bound with this port.
func TestClear(t *testing.T) {
	n := namesOf([]string{"legacy.test:80", "api.test", "*.in.test:8080"})
	for _, tt := range []struct {
		name          string
		port          int
		bound, inOpen bool
	}{
		{"legacy.test", 80, true, true}, {"legacy.test", 443, false, false}, {"api.test", 443, true, false}, {"api.test", 80, true, false},
		{"a.in.test", 8080, true, true}, {"a.in.test", 80, false, false}, {"other.test", 80, false, false},
	} {
		if got := n.allows(tt.name, tt.port); got != tt.bound {
			t.Errorf("%s:%d: bound %v", tt.name, tt.port, got)
		}
		if got := n.allowsClear(tt.name, tt.port); got != tt.inOpen {
			t.Errorf("%s:%d: in the clear %v", tt.name, tt.port, got)
		}
	}
	if n := namesOf([]string{"10.0.0.1"}); n.allows("10.0.0.1", 443) {
		t.Error("an invalid name")
	}
}

// TestUnrecorded lets nothing out that nobody writes down, and does not write down refusals without end.
func TestUnrecorded(t *testing.T) {
	o, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.recordDecision(t.Context(), egress.Decision{Allowed: true}); err == nil {
		t.Error("allowed without a record")
	}
	rows := 0
	o.SetScope(Scope{Record: func(context.Context, egress.Decision) error { rows++; return errors.New("full") }})
	for range 2 * maxRows {
		o.recordDecision(t.Context(), egress.Decision{})
	}
	if rows != maxRows {
		t.Errorf("%d rows of refusals, want %d", rows, maxRows)
	}
	if err := o.recordDecision(t.Context(), egress.Decision{Allowed: true}); err == nil || rows != maxRows+1 {
		t.Errorf("allowed, after as many: %v, %d rows", err, rows)
	}
	o.EndScope()
	var none *Session
	none.SetScope(Scope{})
	if none.EndScope() != nil || none.HasRoute() || none.GitEnv(nil) != nil {
		t.Error("a nil session lets something out")
	}
}

// TestNarrow: new bounds of a session are in force at once, and open nothing that policy does not.
func TestNarrow(t *testing.T) {
	o, err := New(Config{Policy: policy(t, nil, "a.test", "b.test"), Namespace: "team", Session: "S"})
	if err != nil {
		t.Fatal(err)
	}
	allowed := func() (names string) {
		for _, name := range []string{"a.test", "b.test", "c.test"} {
			if o.decide(t.Context(), name, 443).Allowed {
				names += name[:1]
			}
		}
		return names
	}
	none, one, more := policy(t, nil), policy(t, nil, "b.test"), policy(t, nil, "b.test", "c.test")
	for _, c := range []struct {
		within *egress.Policy
		want   string
	}{{nil, "ab"}, {&one, "b"}, {&none, ""}, {&more, "b"}, {nil, "ab"}} {
		o.Narrow(Bounds{Within: c.within})
		if got := allowed(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
