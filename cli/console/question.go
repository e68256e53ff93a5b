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
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// AskOnTerminal returns what asks a person at the terminal, and answers by the broker: see
// pipeline.Request. It is nil without a terminal, since then nobody can be asked.
func (t *Console) AskOnTerminal(b *approval.Broker) func(context.Context, *approval.Pending) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, p *approval.Pending) {
		for _, lock := range []chan struct{}{t.asking, t.screen} { // one question after the other
			select {
			case lock <- struct{}{}:
				defer func() { <-lock }()
			case <-ctx.Done():
				return
			}
		}
		if t.front() && t.take(ctx) {
			defer t.give()
			t.ask(ctx, b, p)
		}
	}
}

// Attend has the questions of a run asked here, and keeps its output and input apart from them.
func (t *Console) Attend(q *pipeline.Request, b *approval.Broker) {
	q.Ask = t.AskOnTerminal(b)
	if q.Stdin != nil {
		q.Stdin = t.lends(q.Stdin)
	}
	for _, w := range []*io.Writer{&q.Stdout, &q.Stderr} {
		if *w != nil {
			*w = t.holds(*w)
		}
	}
}

// ask shows a question until it has an answer, or ctx ends.
func (t *Console) ask(ctx context.Context, b *approval.Broker, p *approval.Pending) {
	if !t.put(ctx, resetTerminal+block(p.Question)) {
		return
	}
	if t.collect(ctx) && ctx.Err() == nil {
		t.put(ctx, again) // or whoever was too early would think that they have answered
	}
	yes, err := t.yes(ctx)
	a := approval.Answer{By: approval.CommandLine(), User: User()}
	switch {
	case ctx.Err() != nil:
		_ = t.tty.SetWriteDeadline(time.Now().Add(time.Second))
		fmt.Fprint(t.tty, "\nsandboxmcp: nobody waits for an answer any more\n")
		return
	case err != nil && !errors.Is(err, io.EOF):
		return // the terminal is gone: silence means no
	case yes:
		a.Allowed, a.Scope = true, scopeOf(p.Question)
	default:
		a.Reason = noReason
	}
	if err := b.Answer(ctx, p.Question.ID, a); err != nil {
		t.put(ctx, "sandboxmcp: the answer has no effect: "+terminal.Visible(err.Error())+"\n")
	}
}

// noReason is why something is denied that was denied at a terminal.
const noReason = "no at the terminal"

// yes reads lines until one is a yes or a no. At their end the error is io.EOF, with what the last one said.
func (t *Console) yes(ctx context.Context) (bool, error) {
	for {
		line, err := t.line(ctx)
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
		if !t.put(ctx, again) {
			return false, io.ErrClosedPipe
		}
	}
}

// scopeOf returns the scope of a yes: the run, since nothing is remembered longer than this process lives.
func scopeOf(q approval.Question) string {
	if q.Run == "" {
		return ""
	}
	return approval.ScopeRun
}

// block is a question, with nothing in it that the terminal would obey.
func block(q approval.Question) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sandboxmcp: %s %s\n", requestPhrase(q.Kind), terminal.Visible(q.What))
	terminal.Fact(&b, "namespace", cmp.Or(q.Namespace, "default"))
	if code := cmp.Or(q.CodeSHA256, q.CodeOf); code != "" {
		terminal.Fact(&b, "code", "SHA-256 "+code[:min(16, len(code))])
	}
	for line := range strings.SplitSeq(strings.TrimRight(q.CodeHead, "\n"), "\n") {
		if line != "" {
			fmt.Fprintf(&b, "    | %s\n", terminal.Visible(line))
		}
	}
	if q.Run == "" {
		fmt.Fprintf(&b, "allow it for %s? [y/N] ", q.For)
		return b.String()
	}
	b.WriteString("allow it for this run? [y/N] ")
	return b.String()
}

// requestPhrase returns the words that stand before what is asked for.
func requestPhrase(kind string) string {
	switch kind {
	case approval.Package:
		return "asked for is to install"
	case approval.Host:
		return "asked for is, on this machine itself, to"
	}
	return "the script wants to connect to"
}

// User returns the name of the user of this process, "" if it is not known.
func User() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// Decide asks a question of a server at the terminal, and returns what is said. Without a terminal, or an answer in
// time, it says so.
func (t *Console) Decide(ctx context.Context, q approval.Question) (v control.Verdict, answered bool) {
	if t == nil {
		return v, false
	}
	ctx, cancel := context.WithDeadline(ctx, q.Expires)
	defer cancel()
	if !t.put(ctx, resetTerminal+block(q)) {
		return v, false
	}
	if t.collect(ctx) {
		t.put(ctx, again)
	}
	yes, err := t.yes(ctx)
	switch {
	case err != nil:
		return v, false
	case yes:
		return control.Verdict{Allow: true}, true
	}
	return control.Verdict{Reason: noReason}, true
}
