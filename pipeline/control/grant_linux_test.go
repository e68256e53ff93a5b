package control

import (
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

func TestScopeOfAnAnswer(t *testing.T) {
	b, _ := broker(t)
	c := connect(t, serve(t, Config{Approvals: b}))
	for name, tt := range map[string]struct {
		run, session string
		say          Verdict
		scope        string
		lasts        time.Duration
		err          string
	}{
		"all that was asked":  {"r", "s", Verdict{Allow: true}, approval.ScopeTime, time.Hour, ""},
		"this run":            {"r", "s", Verdict{Allow: true, Scope: "run"}, approval.ScopeRun, time.Hour, ""},
		"this session":        {"r", "s", Verdict{Allow: true, Scope: "session", Seconds: 90}, approval.ScopeSession, 90 * time.Second, ""},
		"longer than asked":   {"", "", Verdict{Allow: true, Seconds: 1e12}, approval.ScopeTime, time.Hour, ""},
		"for ten minutes":     {"", "", Verdict{Allow: true, Scope: "time", Seconds: 600}, approval.ScopeTime, 10 * time.Minute, ""},
		"a run that is not":   {"", "s", Verdict{Allow: true, Scope: "run"}, "", 0, "can't be approved for that scope: the question has no run"},
		"no such scope":       {"r", "s", Verdict{Allow: true, Scope: "forever"}, "", 0, `"forever" is not allowed`},
		"a no with a scope":   {"r", "s", Verdict{Scope: "run"}, "", 0, "a denial can't have a scope"},
		"less than no time":   {"r", "s", Verdict{Allow: true, Seconds: -1}, "", 0, "out of range"},
		"a no that is a no":   {"r", "s", Verdict{Reason: "no"}, "", 0, ""},
		"no scope in control": {"r", "s", Verdict{Allow: true, Scope: "\x1b[2J"}, "", 0, "is not allowed"},
	} {
		p, err := b.Open(t.Context(), approval.Question{Kind: approval.Egress, What: strings.ReplaceAll(name, " ", "-") + ".example",
			Namespace: "team", Run: tt.run, Session: tt.session})
		must(t, err)
		began := time.Now()
		tt.say.ID = p.Question.ID
		out, err := Call(t.Context(), c, AnswerApproval, tt.say)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got %v, want %q", name, err, tt.err)
			}
			if _, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: p.Question.ID}); err != nil {
				t.Errorf("%s: it does not wait any more: %v", name, err)
			}
			continue
		}
		lasts := out.Until.Sub(began)
		if err != nil || out.Scope != tt.scope || out.Allowed != tt.say.Allow || tt.lasts > 0 &&
			(lasts < tt.lasts-time.Second || out.Until.After(time.Now().Add(tt.lasts+time.Second))) {
			t.Errorf("%s: got %+v, %v", name, out, err)
		}
	}
	got, err := c.Grants(t.Context())
	must(t, err)
	if len(got) != 5 {
		t.Fatalf("%d grants, want 5", len(got))
	}
	for _, g := range got {
		if g.Scope == "" || g.Until.IsZero() || g.By != "cli" || g.User == "" || g.Question.Namespace != "team" {
			t.Errorf("got %+v", g)
		}
	}
	out, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: got[0].Question.ID, Reason: "enough"})
	if left, _ := c.Grants(t.Context()); err != nil || !out.Revoked || len(left) != 4 {
		t.Errorf("taken back: %+v, %v, left are %d", out, err, len(left))
	}
}
