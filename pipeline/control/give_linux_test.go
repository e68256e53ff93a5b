package control

import (
	"os/user"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func TestGive(t *testing.T) {
	b, log := broker(t)
	c := connect(t, serve(t, Config{Approvals: b}))
	me, err := user.Current()
	must(t, err)
	waits := ask(t, b, "example.com:443")
	g, err := c.Give(t.Context(), Gift{Kind: approval.Egress, What: "example.com:443", Namespace: "team", Seconds: 90, Reason: "the docs"})
	must(t, err)
	if g.Scope != approval.ScopeTime || g.User != me.Username || g.By != "cli" || g.Reason != "the docs" || g.Until.Sub(g.Question.Asked) != 90*time.Second {
		t.Errorf("got %+v", g)
	}
	if a, err := waits.Wait(t.Context()); err != nil || !a.Allowed || a.User != me.Username {
		t.Errorf("who waits is told %+v, %v", a, err)
	}
	s, err := c.Give(t.Context(), Gift{Kind: approval.Host, What: "run git *", Namespace: "team", Session: "s", Seconds: 1e300})
	must(t, err)
	if s.Scope != approval.ScopeSession || s.Until.Sub(s.Question.Asked) != approval.MaxFor {
		t.Errorf("got %+v", s)
	}
	list, err := c.Grants(t.Context())
	if err != nil || len(list) != 2 {
		t.Errorf("got %+v, %v", list, err)
	}
	out, err := c.Answer(t.Context(), s.Question.ID, Verdict{})
	if left := b.Grants(); err != nil || !out.Revoked || len(left) != 1 {
		t.Errorf("taken back: %+v, %v, left are %+v", out, err, left)
	}
	for _, bad := range []Gift{
		{},
		{Kind: approval.Egress, What: "example.com"},
		{Kind: approval.Egress, Namespace: "team"},
		{Kind: "all", What: "example.com", Namespace: "team"},
		{Kind: approval.Egress, What: "example.com", Namespace: "team", Seconds: -1},
		{Kind: approval.Egress, What: strings.Repeat("a", 5000), Namespace: "team"},
	} {
		if g, err := c.Give(t.Context(), bad); err == nil {
			t.Errorf("%+v was given: %+v", bad, g)
		}
	}
	must(t, log.Close())
	if _, err := c.Give(t.Context(), Gift{Kind: approval.Egress, What: "late.example", Namespace: "team"}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("an approval that can't be recorded: %v", err)
	}
	if len(b.Grants()) != 1 {
		t.Errorf("what was refused holds: %+v", b.Grants())
	}
}

// TestBadGifts: nothing that is not said in so many words is given.
func TestBadGifts(t *testing.T) {
	b, _ := broker(t)
	l := serve(t, Config{Approvals: b})
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `{"kind":"egress","what":"a.example"}`,
		`{"kind":"egress","what":"a.example","namespace":"team","scope":"time"}`,
		`{"kind":"egress","what":"a.example","namespace":"team","by":"cli","user":"root"}`,
		`{"kind":"egress","what":"a.example","namespace":"team"}{}`,
		`{"kind":"egress","what":"a.example","namespace":"team","seconds":"60"}`,
		`{"kind":"egress","what":["a.example"],"namespace":"team"}`,
		`{"kind":"egress","what":"` + strings.Repeat("a", maxBody) + `","namespace":"team"}`,
	} {
		if status, answer := raw(t, l, request("POST", "/v1/grants", body)); status != 400 || !strings.Contains(answer, "error") {
			t.Errorf("%.80s: %d %s", body, status, answer)
		}
	}
	if len(b.Grants()) != 0 {
		t.Errorf("given are %+v", b.Grants())
	}
	if status, _ := raw(t, serve(t, Config{}), request("POST", "/v1/grants", `{"kind":"egress","what":"a.example","namespace":"team"}`)); status != 404 {
		t.Errorf("a server without approvals: %d", status)
	}
}

// TestGiftsWithoutSecrets wants no secret in a question of a person's either: it would be in the log.
func TestGiftsWithoutSecrets(t *testing.T) {
	secret := strings.Repeat("s3cret-", 3)
	memory := vault.NewMemory()
	must(t, memory.Set("team", "KEY", []byte(secret)))
	b, _ := broker(t)
	c := connect(t, serve(t, Config{Approvals: b, Pipeline: pipeline.New(pipeline.Config{Vault: vault.New(memory)})}))
	bad := Gift{Kind: approval.Host, What: "run curl " + secret, Namespace: "team"}
	if g, err := c.Give(t.Context(), bad); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("given: %+v, %v", g, err)
	}
	if q, err := c.Ask(t.Context(), bad); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("asked: %+v, %v", q, err)
	}
	g, err := c.Give(t.Context(), Gift{Kind: approval.Host, What: "run date", Namespace: "team", Reason: "for " + secret})
	if err != nil || strings.Contains(g.Reason, secret) {
		t.Errorf("got %+v, %v", g, err)
	}
}
