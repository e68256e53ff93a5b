package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// runCommandLine runs a command line that answers questions and returns its exit code and output.
func runCommandLine(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := &program{Streams: &command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}}
	app := p.app()
	line, err := cmdline.Parse(app, append([]string{"sandboxmcp"}, args...))
	if err == nil {
		err = app.Run(line)
	}
	return p.Exit(err), out.String(), errs.String()
}

// setTempHome points HOME and the XDG variables at a temporary directory.
func setTempHome(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, sub := range map[string]string{"HOME": "", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_RUNTIME_DIR": "run"} {
		t.Setenv(name, filepath.Join(dir, sub))
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// serveApprovals serves the control API under a process id and returns its broker.
func serveApprovals(t *testing.T, pid int) *approval.Broker {
	t.Helper()
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	b := approval.New(approval.Config{Audit: log})
	l, err := control.Listen(control.Dir(os.Getenv("XDG_RUNTIME_DIR"), ""),
		control.New(control.Config{Server: control.Server{PID: pid, Database: "/x.db"}, Approvals: b}))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no control socket on this system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		b.Close()
		log.Close()
	})
	return b
}

func submitQuestion(t *testing.T, b *approval.Broker, q approval.Question) *approval.Pending {
	t.Helper()
	p, err := b.Open(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestApprovals(t *testing.T) {
	setTempHome(t)
	b := serveApprovals(t, 7)
	if code, out, errs := runCommandLine("approvals"); code != 0 || out != "no request is waiting\n" || errs != "" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	if _, out, _ := runCommandLine("approvals", "list", "--json"); out != "[]\n" {
		t.Errorf("got %q", out)
	}
	q := submitQuestion(t, b, approval.Question{Kind: approval.Host, What: "rm \x1b[2K\n-rf /", Namespace: "team", Session: "s1", Client: "c1",
		Reason: "please\u202e", CodeSHA256: "abc", CodeHead: "import os\n\x1b]0;x\a\n"}).Question
	submitQuestion(t, b, approval.Question{Kind: approval.Egress, What: "example.com", For: 90 * time.Second})
	for _, words := range [][]string{{"approvals"}, {"approvals", "list"}, {"approvals", "--server", "7"},
		{"approvals", "list", "--server=7"}} {
		code, out, errs := runCommandLine(words...)
		for _, want := range []string{
			q.ID + `: host rm \x1b[2K\n-rf /` + "\n", "namespace         team\n", "session           s1\n", "client            c1\n",
			`the agent says    please\u202e` + "\n", "holds for         1h0m0s\n", "time left ", "for code          abc\n",
			"    | import os\n" + `    | \x1b]0;x\x07` + "\n", "answer with       sandboxmcp approve " + q.ID + "\n\n",
			"for code          any of the namespace\n",
			": egress example.com\n  holds for         1m30s\n",
		} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%v: exit %d, %s: got\n%s, want %q", words, code, errs, out, want)
			}
		}
	}
	_, out, _ := runCommandLine("approvals", "--json")
	var list []approval.Question
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 || list[0].What != q.What ||
		strings.ContainsAny(out, "\x1b\u202e") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestApproveAndDeny(t *testing.T) {
	setTempHome(t)
	b := serveApprovals(t, 7)
	web := submitQuestion(t, b, approval.Question{Kind: approval.Egress, What: "example.com", Namespace: "team"})
	cmd := submitQuestion(t, b, approval.Question{Kind: approval.Host, What: "git push", Namespace: "team"})
	for _, tt := range []struct {
		words          []string
		code           int
		stdout, stderr string
	}{
		{[]string{"approve"}, 2, "", "needs the id of one question\nsandboxmcp: hint: sandboxmcp approvals"},
		{[]string{"approve", web.Question.ID, cmd.Question.ID}, 2, "", "needs the id of one question"},
		{[]string{"approve", "nonsense"}, 2, "", "\"nonsense\" is not a full id"},
		{[]string{"approve", "../server"}, 2, "", "is not a full id"},
		{[]string{"approve", web.Question.ID[:20]}, 2, "", "is not a full id"},
		{[]string{"approve", unaskedID}, 1, "", "question " + unaskedID + ": unknown question"},
		{[]string{"approve", strings.ToLower(web.Question.ID), "--reason", "go on"}, 0, ": egress example.com for the namespace team\n", ""},
		{[]string{"approve", web.Question.ID}, 1, "", "it is answered already"},
		{[]string{"deny", cmd.Question.ID, "--reason", "never"}, 0, "denied: host git push for the namespace team\n", ""},
		{[]string{"approve", cmd.Question.ID}, 1, "", "it is answered already"},
		{[]string{"deny", web.Question.ID}, 0, "taken back: egress example.com for the namespace team\n", ""},
		{[]string{"deny", web.Question.ID}, 1, "", "it is answered already"},
	} {
		code, out, errs := runCommandLine(tt.words...)
		if code != tt.code || !strings.Contains(out, tt.stdout) || !strings.Contains(errs, tt.stderr) || (tt.stderr == "") != (errs == "") {
			t.Errorf("%v: exit %d, %q, %q, want %+v", tt.words, code, out, errs, tt)
		}
	}
	if a, err := web.Wait(t.Context()); err != nil || !a.Allowed || a.Reason != "go on" || a.User == "" {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, err := cmd.Wait(t.Context()); err != nil || a.Allowed || a.Reason != "never" {
		t.Errorf("got %+v, %v", a, err)
	}
	if slices.ContainsFunc(b.Grants(), func(g approval.Grant) bool { return g.Question.What == "example.com" }) {
		t.Error("what was taken back holds")
	}
}

func TestApproveForLess(t *testing.T) {
	setTempHome(t)
	b := serveApprovals(t, 7)
	for i, tt := range []struct {
		with   []string
		code   int
		says   string
		scope  string
		lasts  time.Duration
		hasRun bool
	}{
		{nil, 0, "approved until ", approval.ScopeTime, time.Hour, true},
		{[]string{"--for", "run"}, 0, "approved for the run r1 only, until ", approval.ScopeRun, time.Hour, true},
		{[]string{"--for=session"}, 0, "approved for the session s1 only, until ", approval.ScopeSession, time.Hour, true},
		{[]string{"--for", "10m"}, 0, "approved until ", approval.ScopeTime, 10 * time.Minute, true},
		{[]string{"--for", "48h"}, 0, "approved until ", approval.ScopeTime, time.Hour, true},
		{[]string{"--for", "run"}, 1, "the question has no run", "", 0, false},
		{[]string{"--for", "ever"}, 2, "is not run, session or a time", "", 0, true},
		{[]string{"--for", "-1h"}, 2, "is not run, session or a time", "", 0, true},
		{[]string{"--for", "0s"}, 2, "is not run, session or a time", "", 0, true},
	} {
		for _, command := range [][]string{{"approve"}, {"egress", "approve"}} {
			q := approval.Question{Kind: approval.Egress, What: fmt.Sprintf("h%d.%s.example", i, command[0]), Namespace: "team", Session: "s1"}
			if tt.hasRun {
				q.Run = "r1"
			}
			p := submitQuestion(t, b, q)
			code, out, errs := runCommandLine(append(append(slices.Clone(command), p.Question.ID), tt.with...)...)
			if code != tt.code || !strings.Contains(out+errs, tt.says) {
				t.Errorf("%v %v: exit %d, %q, %q", command, tt.with, code, out, errs)
			}
			held := slices.DeleteFunc(b.Grants(), func(g approval.Grant) bool { return g.Question.ID != p.Question.ID })
			if (len(held) == 1) != (tt.scope != "") || len(held) == 1 &&
				(held[0].Answer.Scope != tt.scope || time.Until(held[0].Answer.Until).Round(time.Minute) != tt.lasts) {
				t.Errorf("%v %v: got %+v", command, tt.with, held)
			}
			if tt.scope == "" { // leave room for the next ones
				if code, _, errs := runCommandLine("deny", p.Question.ID); code != 0 {
					t.Errorf("it does not wait any more: %s", errs)
				}
			}
		}
	}
}

// unaskedID is a valid id that belongs to no question.
const unaskedID = "01K9ZB5W7Q3M8Y2D4F6H8J0K2M"

func TestNoServerOrSeveral(t *testing.T) {
	setTempHome(t)
	for _, words := range [][]string{{"approvals"}, {"approve", unaskedID}, {"deny", unaskedID}} {
		if code, out, errs := runCommandLine(words...); code != 1 || out != "" ||
			errs != "sandboxmcp: no server is running: start one with sandboxmcp serve\n" {
			t.Errorf("%v: exit %d, %q, %q", words, code, out, errs)
		}
	}
	if code, _, errs := runCommandLine("approvals", "--server", "7"); code != 1 || !strings.Contains(errs, "server 7 is not running") {
		t.Errorf("exit %d, %q", code, errs)
	}
	one, other := serveApprovals(t, 7), serveApprovals(t, 123)
	code, _, errs := runCommandLine("approvals")
	if code != 1 || !strings.Contains(errs, "several servers are running:\n      7, since ") ||
		!strings.Contains(errs, "\n      123, since ") ||
		!strings.Contains(errs, "database /x.db") || !strings.Contains(errs, "--server 7\n") {
		t.Errorf("exit %d, %q", code, errs)
	}
	p := submitQuestion(t, other, approval.Question{Kind: approval.Egress, What: "example.com"})
	if code, _, errs := runCommandLine("approve", p.Question.ID, "--server", "7"); code != 1 || !strings.Contains(errs, "unknown question") {
		t.Errorf("the wrong server: exit %d, %q", code, errs)
	}
	if code, _, errs := runCommandLine("--server", "123", "approve", p.Question.ID); code != 2 {
		t.Errorf("a flag before its command: exit %d, %q", code, errs)
	}
	if code, _, errs := runCommandLine("approve", "--server", "123", p.Question.ID); code != 0 {
		t.Errorf("the right server: exit %d, %q", code, errs)
	}
	if len(one.Grants()) != 0 || len(other.Grants()) != 1 {
		t.Errorf("%d and %d approvals hold", len(one.Grants()), len(other.Grants()))
	}
}
