package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func TestGrant(t *testing.T) {
	b, log := broker(t)
	c := connect(t, serve(t, Config{Approvals: b}))
	me, err := user.Current()
	must(t, err)
	waits := openQuestion(t, b, "example.com:443")
	g, err := Call(t.Context(), c, GiveGrant, GrantRequest{Kind: approval.Egress, What: "example.com:443", Namespace: "team", Seconds: 90,
		Reason: "the docs"})
	must(t, err)
	if g.Scope != approval.ScopeTime || g.User != me.Username || g.By != "cli" || g.Reason != "the docs" ||
		g.Until.Sub(g.Question.Asked) != 90*time.Second {
		t.Errorf("got %+v", g)
	}
	if a, err := waits.Wait(t.Context()); err != nil || !a.Allowed || a.User != me.Username {
		t.Errorf("who waits is told %+v, %v", a, err)
	}
	s, err := Call(t.Context(), c, GiveGrant, GrantRequest{Kind: approval.Host, What: "run git *", Namespace: "team", Session: "s",
		Seconds: 1e12})
	must(t, err)
	if s.Scope != approval.ScopeSession || s.Until.Sub(s.Question.Asked) != approval.MaxFor {
		t.Errorf("got %+v", s)
	}
	list, err := c.Grants(t.Context())
	if err != nil || len(list) != 2 {
		t.Errorf("got %+v, %v", list, err)
	}
	out, err := Call(t.Context(), c, AnswerApproval, Verdict{ID: s.Question.ID})
	if left := b.Grants(); err != nil || !out.Revoked || len(left) != 1 {
		t.Errorf("taken back: %+v, %v, left are %+v", out, err, left)
	}
	for _, bad := range []GrantRequest{
		{},
		{Kind: approval.Egress, What: "example.com"},
		{Kind: approval.Egress, Namespace: "team"},
		{Kind: "all", What: "example.com", Namespace: "team"},
		{Kind: approval.Egress, What: "example.com", Namespace: "team", Seconds: -1},
		{Kind: approval.Egress, What: strings.Repeat("a", 5000), Namespace: "team"},
	} {
		if g, err := Call(t.Context(), c, GiveGrant, bad); err == nil {
			t.Errorf("%+v was given: %+v", bad, g)
		}
	}
	must(t, log.Close())
	if _, err := Call(t.Context(), c, GiveGrant, GrantRequest{Kind: approval.Egress, What: "late.example", Namespace: "team"}); err == nil ||
		err.Error() != audit.UnwrittenText {
		t.Errorf("an approval that can't be recorded: %v", err)
	}
	if len(b.Grants()) != 1 {
		t.Errorf("what was refused holds: %+v", b.Grants())
	}
}

// TestBadGifts: nothing that is not said in so many words is given.
func TestBadGrants(t *testing.T) {
	b, _ := broker(t)
	l := serve(t, Config{Approvals: b})
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `{"kind":"egress","what":"a.example"}`,
		`{"kind":"egress","what":"a.example","namespace":"team","scope":"time"}`,
		`{"kind":"egress","what":"a.example","namespace":"team","by":"cli","user":"root"}`,
		`{"kind":"egress","what":"a.example","namespace":"team"}{}`,
		`{"kind":"egress","what":"a.example","namespace":"team","seconds":"a minute"}`,
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
}

// TestGrantsWithoutSecrets wants no secret in a question of a person's either: it would be in the log.
func TestGrantsWithoutSecrets(t *testing.T) {
	secret := strings.Repeat("s3cret-", 3)
	memory := vault.NewMemory()
	must(t, memory.Set("team", "KEY", []byte(secret)))
	b, _ := broker(t)
	c := connect(t, serve(t, Config{Approvals: b, Pipeline: pipeline.New(pipeline.Config{Vault: vault.New(memory)})}))
	bad := GrantRequest{Kind: approval.Host, What: "run curl " + secret, Namespace: "team"}
	if g, err := Call(t.Context(), c, GiveGrant, bad); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("given: %+v, %v", g, err)
	}
	if q, err := Call(t.Context(), c, OpenApproval, bad); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("asked: %+v, %v", q, err)
	}
	g, err := Call(t.Context(), c, GiveGrant, GrantRequest{Kind: approval.Host, What: "run date", Namespace: "team", Reason: "for " + secret})
	if err != nil || strings.Contains(g.Reason, secret) {
		t.Errorf("got %+v, %v", g, err)
	}
}

// guarded is a server whose approvals are root's. It prints its socket, the id of its question, and how far its own
// user gets.
func guarded(dir string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(0)
		}
	}
	log, err := audit.Open(ctx, filepath.Join(dir, "audit.db"))
	fail(err)
	b := approval.New(approval.Config{Audit: log, Root: true})
	p, err := b.Open(ctx, approval.Question{Kind: approval.Egress, What: "example.com", Namespace: "team"})
	fail(err)
	l, err := Listen(dir, New(Config{Server: Server{PID: os.Getpid()}, Approvals: b}))
	fail(err)
	own, err := Dial(ctx, "", l.socket.path)
	fail(err)
	_, answered := Call(ctx, own, AnswerApproval, Verdict{ID: p.Question.ID, Allow: true})
	_, answers := Call(ctx, own, GiveGrant, GrantRequest{Kind: approval.Egress, What: "example.net", Namespace: "team"})
	fmt.Println(own.Socket(), p.Question.ID, errors.Is(answered, approval.ErrRoot), errors.Is(answers, approval.ErrRoot))
	a, err := p.Wait(ctx)
	fmt.Println(a.Allowed, a.User, err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// Where approvals are root's, the server's own user is refused, and root approves by the socket's path.
func TestOnlyRoot(t *testing.T) {
	c := child(t, "guarded", t.TempDir())
	if os.Geteuid() == 0 {
		dir := filepath.Join(t.TempDir(), "run")
		must(t, os.Mkdir(dir, 0o700))
		letIn(t, filepath.Dir(dir))
		must(t, os.Chown(dir, 65534, 65534))
		c = child(t, "guarded", dir)
		c.Path, c.Dir = forAll(t), "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	defer func() { in.Close(); c.Wait() }()
	lines := bufio.NewReader(out)
	line, _ := lines.ReadString('\n')
	words := strings.Fields(line)
	if len(words) != 4 || words[2] != "true" || words[3] != "true" {
		t.Fatalf("got %q, want the server's user refused twice", line)
	}
	client, err := Dial(t.Context(), "", words[0])
	must(t, err)
	defer client.Close()
	_, err = Call(t.Context(), client, AnswerApproval, Verdict{ID: words[1], Allow: true})
	if os.Geteuid() != 0 {
		if !errors.Is(err, approval.ErrRoot) {
			t.Errorf("an ordinary user: %v", err)
		}
		_, err = Call(t.Context(), client, AnswerApproval, Verdict{ID: words[1]})
		must(t, err)
		return
	}
	must(t, err)
	if line, _ = lines.ReadString('\n'); line != "true root <nil>\n" {
		t.Errorf("who waits is told %q", line)
	}
}
