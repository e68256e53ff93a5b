package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// AskOnTerminal returns a function for run.Reach.Ask that asks at the terminal and passes the answer to the broker. It
// returns nil without a terminal.
func (t *Console) AskOnTerminal(b *approval.Broker) func(context.Context, *approval.Pending) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, p *approval.Pending) {
		for _, lock := range []chan struct{}{t.asking, t.screen} { // one question at a time
			select {
			case lock <- struct{}{}:
				defer func() { <-lock }()
			case <-ctx.Done():
				return
			}
		}
		if t.front() && t.acquire(ctx) {
			defer t.release()
			t.askQuestion(ctx, b, p)
		}
	}
}

// Attend sets q to ask its questions here, and keeps its output and input apart from them.
func (t *Console) Attend(q *run.Request, b *approval.Broker) {
	q.Ask = t.AskOnTerminal(b)
	t.Share(q)
}

// Share keeps the output and input of q apart from questions here.
func (t *Console) Share(q *run.Request) {
	if q.Stdin != nil {
		q.Stdin = t.pausingReader(q.Stdin)
	}
	for _, w := range []*io.Writer{&q.Stdout, &q.Stderr} {
		if *w != nil {
			*w = t.pausingWriter(*w)
		}
	}
}

// askQuestion shows a question until it has an answer or ctx ends.
func (t *Console) askQuestion(ctx context.Context, b *approval.Broker, p *approval.Pending) {
	yes, err := t.poseQuestion(ctx, p.Question)
	a := approval.Answer{By: approval.CommandLine(), User: User()}
	switch {
	case ctx.Err() != nil && t.drawn != nil:
		return
	case ctx.Err() != nil:
		_ = t.tty.SetWriteDeadline(time.Now().Add(time.Second))
		fmt.Fprint(t.tty, "\nsandboxmcp: no request is waiting any more\n")
		return
	case err != nil && !errors.Is(err, io.EOF):
		return // the terminal has gone: no answer means no
	case yes:
		if a.Allowed = true; p.Question.Run != "" { // approvals last as long as this process
			a.Scope = approval.ScopeRun
		}
	default:
		a.Reason = denialReason
	}
	if err := b.Answer(ctx, p.Question.ID, a); t.drawn != nil {
		return // the program has the screen; the end of the run reports what was refused
	} else if errors.Is(err, approval.ErrUnrecorded) {
		t.writeText(ctx, "sandboxmcp: "+terminal.Visible(err.Error())+"\n")
	} else if err != nil {
		t.writeText(ctx, "sandboxmcp: the answer has no effect: "+terminal.Visible(err.Error())+"\n")
	}
}

// denialReason is the reason of a denial at a terminal.
const denialReason = "no at the terminal"

// poseQuestion shows a question and returns the answer as yes does.
func (t *Console) poseQuestion(ctx context.Context, q approval.Question) (bool, error) {
	if t.drawn != nil {
		return t.poseOverScreen(ctx, q)
	}
	if !t.writeText(ctx, resetTerminal+formatQuestion(q)) {
		return false, io.ErrClosedPipe
	}
	if t.collectEarly(ctx) && ctx.Err() == nil {
		t.writeText(ctx, retryPrompt) // a person who typed too early must not believe to have answered
	}
	return t.readYesNo(ctx)
}

// readYesNo reads lines until one is a yes or a no; an empty line is a no. If the input ends with that line, the error is
// io.EOF and the answer is valid.
func (t *Console) readYesNo(ctx context.Context) (bool, error) {
	for {
		line, err := t.readLine(ctx)
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil && !errors.Is(err, io.EOF):
			return false, err
		case word == "y" || word == "yes":
			return true, err
		case word == "" || word == "n" || word == "no":
			return false, err
		}
		if !t.writeText(ctx, retryPrompt) {
			return false, io.ErrClosedPipe
		}
	}
}

// formatQuestion formats a question, without control characters that a terminal would execute.
func formatQuestion(q approval.Question) string {
	var b strings.Builder
	wants := map[string]string{approval.Package: "the script wants to install", approval.Host: "outside the sandbox, on this machine:",
		approval.Changes: "the agent wants to"}[q.Kind]
	fmt.Fprintf(&b, "sandboxmcp: %s %s\n", cmp.Or(wants, "the script wants to connect to"), terminal.Visible(q.What))
	terminal.Fact(&b, "namespace", cmp.Or(q.Namespace, "default"))
	if code := cmp.Or(q.CodeSHA256, q.CodeOf); code != "" {
		terminal.Fact(&b, "code", "SHA-256 "+code[:min(16, len(code))])
	}
	for line := range strings.SplitSeq(strings.TrimRight(q.CodeHead, "\n"), "\n") {
		if line != "" {
			fmt.Fprintf(&b, "    | %s\n", terminal.Visible(line))
		}
	}
	what := "this run"
	if q.Run == "" {
		what = q.For.String()
	}
	return fmt.Sprintf("%sallow it for %s? [y/N] ", b.String(), what)
}

// User returns the name of the user of this process, or "" if unknown.
func User() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// Decide asks a question of a server at the terminal and returns the verdict. answered is false without a terminal, or
// if the question expires first.
func (t *Console) Decide(ctx context.Context, q approval.Question) (v control.Verdict, answered bool) {
	if t == nil {
		return v, false
	}
	ctx, cancel := context.WithDeadline(ctx, q.Expires)
	defer cancel()
	yes, err := t.poseQuestion(ctx, q)
	switch {
	case err != nil:
		return v, false
	case yes:
		return control.Verdict{Allow: true}, true
	}
	return control.Verdict{Reason: denialReason}, true
}
