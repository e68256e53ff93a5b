package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

func TestEgressList(t *testing.T) {
	setTempHome(t)
	for _, words := range [][]string{{"egress", "list"}, {"egress", "approve", "X"}, {"egress", "deny", "X"}} {
		if code, _, errs := runCommandLine(words...); code != 1 || !strings.Contains(errs, "no server is running") {
			t.Errorf("%v: exit %d, %q", words, code, errs)
		}
	}
	one, other := serveApprovals(t, 7), serveApprovals(t, 123)
	if code, out, errs := runCommandLine("egress", "list"); code != 0 || out != "no connection is waiting\nnothing is approved\n" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	waits := submitQuestion(t, one, approval.Question{Kind: approval.Egress, What: "a.example\x1b[2J", Namespace: "team", Run: "r1",
		Reason: "it connects"})
	holds := submitQuestion(t, other, approval.Question{Kind: approval.Egress, What: "b.example:22", Namespace: "team", Session: "s1"})
	submitQuestion(t, other, approval.Question{Kind: approval.Host, What: "git push"})
	if err := other.Answer(t.Context(), holds.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine(), User: "ada",
		Scope: approval.ScopeSession}); err != nil {
		t.Fatal(err)
	}
	_, out, _ := runCommandLine("egress", "list")
	for _, want := range []string{
		waits.Question.ID + `: egress a.example\x1b[2J` + "\n", "run               r1\n", "why               it connects\n",
		"answer with       sandboxmcp egress approve " + waits.Question.ID + "\n",
		holds.Question.ID + ": b.example:22 is approved\n", "holds             for the session s1 only, until 2", "approved by       ada (cli)\n",
		"take back with    sandboxmcp egress deny " + holds.Question.ID + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%s, want %q", out, want)
		}
	}
	if strings.Contains(out, "git push") {
		t.Errorf("a command on the host is listed as egress:\n%s", out)
	}
	_, out, _ = runCommandLine("egress", "list", "--json")
	var got struct {
		Waiting  []struct{ ID, Server, Run string }
		Approved []struct {
			Question      approval.Question
			Server, Scope string
			Until         string
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Waiting) != 1 || len(got.Approved) != 1 ||
		got.Waiting[0].Server != "7" || got.Waiting[0].ID != waits.Question.ID || got.Waiting[0].Run != "r1" ||
		got.Approved[0].Server != "123" || got.Approved[0].Scope != "session" || got.Approved[0].Question.ID != holds.Question.ID ||
		got.Approved[0].Until == "" {
		t.Errorf("%v: %s", err, out)
	}
	if _, out, _ := runCommandLine("egress", "list", "--server", "123"); strings.Contains(out, waits.Question.ID) ||
		!strings.Contains(out, holds.Question.ID) {
		t.Errorf("one server's: %s", out)
	}
}

func TestEgressApproveAndDeny(t *testing.T) {
	setTempHome(t)
	one, other := serveApprovals(t, 7), serveApprovals(t, 123)
	ask := func(b *approval.Broker, what string) string {
		return submitQuestion(t, b, approval.Question{Kind: approval.Egress, What: what, Namespace: "team"}).Question.ID
	}
	a, b, c, d := ask(one, "a.example"), ask(other, "a.example:22"), ask(other, "sub.a.example"), ask(one, "d.example")
	command := submitQuestion(t, one, approval.Question{Kind: approval.Host, What: "rm -rf /"}).Question.ID
	for _, tt := range []struct {
		words     []string
		code      int
		out, errs string
	}{
		{[]string{"egress"}, 2, "", "list, approve, deny, or one DOMAIN"},
		{[]string{"egress", "approve"}, 2, "", "needs the id of one question"},
		{[]string{"egress", "approve", a, b}, 2, "", "needs the id of one question"},
		{[]string{"egress", "deny"}, 2, "", "needs ids or names"},
		{[]string{"egress", "approve", command}, 1, "", "no connection with the id"}, // whatever an agent called it
		{[]string{"egress", "deny", command}, 1, "", "no request or approval matches"},
		{[]string{"egress", "approve", "a.example"}, 1, "", "no connection with the id"},
		{[]string{"egress", "approve", "\x1b[2J"}, 1, "", `\x1b[2J`},
		{[]string{"egress", "approve", strings.ToLower(b), "--reason", "go on"}, 0, "approved until ", ""},
		{[]string{"egress", "approve", b}, 1, "", "no connection with the id"},
		{[]string{"egress", "deny", "A.example", d}, 0, "denied: egress a.example for the namespace team\ntaken back: egress a.example:22 for " +
			"the namespace team\ndenied: egress d.example", ""},
		{[]string{"egress", "deny", "a.example"}, 1, "", "no request or approval matches a.example"},
		{[]string{"egress", "approve", c, "--server", "7"}, 1, "", "no connection with the id"},
		{[]string{"egress", "approve", c, "--server", "123"}, 0, "approved until ", ""},
	} {
		code, out, errs := runCommandLine(tt.words...)
		if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || (tt.errs == "") != (errs == "") {
			t.Errorf("%q: exit %d, %q, %q, want %+v", tt.words, code, out, errs, tt)
		}
	}
	if len(one.Grants()) != 0 || len(other.Grants()) != 1 || len(one.Pending()) != 1 || one.Pending()[0].ID != command {
		t.Errorf("%+v, %+v, %+v", one.Grants(), other.Grants(), one.Pending())
	}
}

// TestEgressGive allows hosts that nobody has requested.
func TestEgressGive(t *testing.T) {
	setTempHome(t)
	if code, _, errs := runCommandLine("egress", "a.example", "--namespace", "team"); code != 1 ||
		!strings.Contains(errs, "no server is running") || !strings.Contains(errs, "run FILE --allow a.example") {
		t.Errorf("without a server: exit %d, %q", code, errs)
	}
	one, other := serveApprovals(t, 7), serveApprovals(t, 123)
	for line, want := range map[string]string{
		"egress http://a.example":       "invalid destination",
		"egress a.example:53":           "port 53",
		"egress a.example --for 48h":    "at most 24h",
		"egress a.example --for -1h":    "at most 24h",
		"egress a.example b.example":    "one DOMAIN",
		"egress":                        "list, approve, deny",
		"egress lsit":                   "did you mean sandboxmcp egress list?",
		"egress a.example --nmespace x": "did you mean --namespace?",
	} {
		if code, _, errs := runCommandLine(strings.Fields(line)...); code != exit.BadUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q", line, code, errs)
		}
	}
	if n := len(one.Grants()) + len(other.Grants()); n != 0 {
		t.Fatalf("%d approvals hold of what was typed wrong", n)
	}
	code, out, errs := runCommandLine("egress", "*.A.example", "--namespace", "team", "--for", "10m", "--reason", "asked by phone")
	if code != 0 || strings.Count(out, "allowed *.a.example for the namespace team until ") != 2 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if code, out, _ := runCommandLine("egress", "b.example", "--server", "7", "--json"); code != 0 ||
		!strings.Contains(out, `"what":"b.example","namespace":"default"`) {
		t.Errorf("exit %d, %q", code, out)
	}
	if len(one.Grants()) != 2 || len(other.Grants()) != 1 {
		t.Errorf("got %v and %v", one.Grants(), other.Grants())
	}
	for _, g := range other.Grants() {
		if a := g.Answer; g.Question.What != "*.a.example" || g.Question.Namespace != "team" || a.Reason != "asked by phone" ||
			a.By.String() != "cli" || g.Question.For.Minutes() != 10 {
			t.Errorf("got %+v", g)
		}
	}
	if code, _, errs := runCommandLine("egress", "deny", "*.a.example"); code != 0 || len(other.Grants()) != 0 {
		t.Errorf("taken back: exit %d, %q, %v", code, errs, other.Grants())
	}
}

// TestAnswerWithReason answers for a limited time, and with a reason.
func TestAnswerWithReason(t *testing.T) {
	setTempHome(t)
	one := serveApprovals(t, 7)
	q := submitQuestion(t, one, approval.Question{Kind: approval.Egress, What: "a.example", Namespace: "team"})
	if code, out, errs := runCommandLine("approve", q.Question.ID, "--for", "5m"); code != 0 || !strings.Contains(out, "approved until") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	q = submitQuestion(t, one, approval.Question{Kind: approval.Egress, What: "b.example", Namespace: "team"})
	if code, out, errs := runCommandLine("deny", q.Question.ID, "--reason", "no", "--json"); code != 0 ||
		!strings.Contains(out, `"what":"b.example"`) || !strings.Contains(out, `"allowed":false`) {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}
