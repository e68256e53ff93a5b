package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// ServerFlag returns --server.
func ServerFlag() cli.Flag {
	return &cli.StringFlag{Name: "server", Usage: "use the server with this `PID`, path of a socket, or URL"}
}

func (p commands) approvalsCommand() *cli.Command {
	flags := []cli.Flag{command.JSONFlag(), ServerFlag()}
	return &cli.Command{
		Name:      "approvals",
		Usage:     "list the requests that wait for approval",
		UsageText: "sandboxmcp approvals [list] [--json] [--server PID]",
		Description: `Answer with sandboxmcp approve or sandboxmcp deny. Requests without an answer in time are denied.

Example: sandboxmcp approvals`,
		Flags:  flags,
		Action: command.NoWords(p.approvals),
		Subcommands: []*cli.Command{{
			Name:        "list",
			Usage:       "list the requests that wait for approval",
			UsageText:   "sandboxmcp approvals list [--json] [--server PID]",
			Description: "Example: sandboxmcp approvals list --json",
			Flags:       flags,
			Action:      command.NoWords(p.approvals),
		}},
	}
}

func (p commands) approveCommand() *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     "approve a request",
		UsageText: "sandboxmcp approve ID [--for run|session|DURATION] [--reason TEXT] [--json] [--server PID]",
		Description: `The approval covers exactly the request, for the requested time or the shorter one of --for. The log records
the approver.

Example: sandboxmcp approve 01K9ZB5W7Q3M8Y2D4F6H8J0K2M`,
		Flags:  append(AnswerFlags(), forFlag()),
		Action: func(c *cli.Context) error { return p.answerQuestion(c, true) },
	}
}

func (p commands) denyCommand() *cli.Command {
	return &cli.Command{
		Name:      "deny",
		Usage:     "deny a request, or revoke an approval",
		UsageText: "sandboxmcp deny ID [--reason TEXT] [--json] [--server PID]",
		Description: `The agent is told the reason.

Example: sandboxmcp deny 01K9ZB5W7Q3M8Y2D4F6H8J0K2M --reason 'use the mirror'`,
		Flags:  AnswerFlags(),
		Action: func(c *cli.Context) error { return p.answerQuestion(c, false) },
	}
}

// AnswerFlags returns the flags of answers to questions.
func AnswerFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the agent and the log"}, command.JSONFlag(), ServerFlag()}
}

func forFlag() cli.Flag {
	return &cli.StringFlag{Name: "for", Usage: "approve it for a shorter time: `TIME` is run, session, or a time such as 10m"}
}

// readVerdict returns the answer in the command line's flags.
func readVerdict(c *cli.Context, allow bool) (control.Verdict, error) {
	v := control.Verdict{Allow: allow, Reason: c.String("reason")}
	text := c.String("for")
	switch text {
	case "":
	case approval.ScopeRun, approval.ScopeSession:
		v.Scope = text
	default:
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return v, exit.Usage("--for 10m", "--for %s is not run, session or a time", terminal.Visible(text))
		}
		v.Scope, v.Seconds = approval.ScopeTime, d.Seconds()
	}
	return v, nil
}

// WithServer calls f with a connection to the server that the command line selects.
func WithServer(c *cli.Context, f func(context.Context, *control.Client) error) error {
	ctx, stop := command.UntilSignal(c)
	defer stop()
	client, err := connectSelected(ctx, c)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client)
}

func connectSelected(ctx context.Context, c *cli.Context) (*control.Client, error) {
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil, err
	}
	client, err := dial(ctx, cfg, c.String("server"))
	if err != nil {
		return nil, noServerError(err, c.String("server"))
	}
	if silent := client.Silent(); len(silent) > 0 {
		fmt.Fprintf(c.App.ErrWriter, "sandboxmcp: warning: this is server %s alone: %s does not answer\n",
			terminal.Visible(client.Server().Name), terminal.Visible(strings.Join(silent, ", ")))
	}
	return client, nil
}

// dial connects to a server by name, or by URL with the token in the environment.
func dial(ctx context.Context, cfg config.Config, name string) (*control.Client, error) {
	if !strings.Contains(name, "://") {
		return control.Dial(ctx, wiring.SocketDir(cfg), name)
	}
	token := os.Getenv("SANDBOXMCP_TOKEN")
	if token == "" {
		return nil, exit.Usage("sandboxmcp token create NAME --person --namespace NS, at the server, makes one",
			"--server %s needs a person's token in SANDBOXMCP_TOKEN", terminal.Visible(name))
	}
	return control.Remote(ctx, name, token)
}

// noServerError adds a hint to a connection error: the running servers, or how to start one.
func noServerError(err error, name string) error {
	var several *control.Several
	switch {
	case errors.As(err, &several):
		text := "several servers are running:"
		for _, s := range several.Servers {
			text += fmt.Sprintf("\n  %s, since %s, with the database %s", s.Name, s.Began.Local().Format(time.DateTime), s.Database)
			if s.Namespace != "" {
				text += ", for namespace " + terminal.Visible(s.Namespace)
			}
		}
		return exit.Fail("choose one: --server "+several.Servers[0].Name, "%s", text)
	case errors.Is(err, control.ErrNone) && name != "":
		return exit.Fail("leave --server out to list the running servers", "server %s is not running", name)
	case errors.Is(err, context.DeadlineExceeded):
		return exit.Fail("it may be stopped, or very busy; sandboxmcp audit needs no server", "%s",
			strings.ReplaceAll(err.Error(), ": "+context.DeadlineExceeded.Error(), ""))
	case errors.Is(err, control.ErrNone):
		return exit.Fail("", "no server is running: start one with sandboxmcp serve")
	}
	return err
}

func (p commands) approvals(c *cli.Context) error {
	return WithServer(c, func(ctx context.Context, client *control.Client) error {
		list, err := client.Approvals(ctx)
		if err != nil {
			return err
		}
		var b strings.Builder
		if len(list) == 0 {
			b.WriteString("no request is waiting\n")
		}
		for i, q := range list {
			if i > 0 {
				b.WriteByte('\n')
			}
			showQuestion(&b, q, time.Now(), "sandboxmcp approve")
		}
		return p.Printf(c, list, "%s", b.String())
	})
}

// showQuestion prints all of a question and the command that approves it: nobody should approve anything unseen.
func showQuestion(b *strings.Builder, q approval.Question, now time.Time, command string) {
	fmt.Fprintf(b, "%s: %s %s\n", terminal.Visible(q.ID), terminal.Visible(q.Kind), terminal.Visible(q.What))
	for _, f := range [][2]string{
		{"namespace", q.Namespace}, {"session", q.Session}, {"run", q.Run}, {"client", q.Client},
		{map[bool]string{true: "why", false: "the agent says"}[q.Run != ""], q.Reason}, // an agent's reason is a claim
		{"holds for", q.For.String()},
		{"time left", max(0, q.Expires.Sub(now)).Round(time.Second).String()},
		{"for code", cmp.Or(q.CodeSHA256, "any of the namespace")},
		{"asked by code", q.CodeOf},
	} {
		if f[1] != "" {
			terminal.Fact(b, f[0], f[1])
		}
	}
	if q.CodeHead != "" {
		for line := range strings.SplitSeq(strings.TrimRight(q.CodeHead, "\n"), "\n") {
			fmt.Fprintf(b, "    | %s\n", terminal.Visible(line))
		}
	}
	terminal.Fact(b, "answer with", command+" "+q.ID)
}

// answerQuestion answers the question that the command line names.
func (p commands) answerQuestion(c *cli.Context, allow bool) error {
	id, err := questionID(c, "sandboxmcp approvals")
	if err != nil {
		return err
	}
	v, err := readVerdict(c, allow)
	if err != nil {
		return err
	}
	return WithServer(c, func(ctx context.Context, client *control.Client) error {
		return SubmitVerdict(ctx, p.Streams, c, client, id, v, "sandboxmcp approvals")
	})
}

// questionID returns the full id in the command line. Unlike sessions, questions have no short ids: an id begins with
// the time, so a prefix might match a newer question than the one that the person has read.
func questionID(c *cli.Context, list string) (string, error) {
	id := strings.ToUpper(c.Args().First())
	switch {
	case c.NArg() != 1:
		return "", exit.Usage(list, "%s needs the id of one question", c.Command.Name)
	case !wholeID().MatchString(id):
		return "", exit.Usage(list, "%s is not a full id (26 characters)", terminal.Visible(strconv.Quote(c.Args().First())))
	}
	return id, nil
}

var wholeID = lazy.Regexp(`^[0-9A-Z]{26}$`)

// SubmitVerdict answers a question and prints the outcome. list is the command that lists questions.
func SubmitVerdict(ctx context.Context, p *command.Streams, c *cli.Context, client *control.Client, id string, v control.Verdict,
	list string) error {
	v.ID = id
	out, err := control.Call(ctx, client, control.AnswerApproval, v)
	switch {
	case errors.Is(err, approval.ErrRoot):
		return rootOnlyError(client, "approve "+id)
	case errors.Is(err, approval.ErrUnknown), errors.Is(err, approval.ErrAnswered):
		return exit.Fail(list, "question %s: %v", id, err)
	case err != nil:
		return exit.Fail("the question is still open unless it has expired: "+list, "the answer has no effect: %v", err)
	}
	if out.Late.Late != "" {
		p.Messagef("%s", out.Late.Late)
	}
	return p.Printf(c, out, "%s\n", outcomeText(out))
}

// rootOnlyError returns the error for an approval that requires root, with root's command line. No program of the server's
// user can change the text that root reads there.
func rootOnlyError(client *control.Client, what string) error {
	at := "--server " + terminal.ShellWord(client.Socket())
	return exit.Fail(fmt.Sprintf("sudo sandboxmcp approvals %s; sudo sandboxmcp %s %s", at, what, at),
		"the configuration leaves approvals to root")
}

// outcomeText describes the effect of an answer in one line.
func outcomeText(o control.Outcome) string {
	what := fmt.Sprintf("%s %s for the namespace %s", terminal.Visible(o.Question.Kind), terminal.Visible(o.Question.What),
		terminal.Visible(o.Question.Namespace))
	switch {
	case o.Revoked:
		return "taken back: " + what
	case !o.Allowed:
		return "denied: " + what
	}
	return fmt.Sprintf("approved %s: %s", grantText(o.Question, o.Scope, o.Until), what)
}

// grantText describes the scope and the expiry of an approval.
func grantText(q approval.Question, scope string, until time.Time) string {
	end := "until " + until.Local().Format(time.DateTime)
	switch scope {
	case approval.ScopeRun:
		return fmt.Sprintf("for the run %s only, %s", terminal.Visible(q.Run), end)
	case approval.ScopeSession:
		return fmt.Sprintf("for the session %s only, %s", terminal.Visible(q.Session), end)
	}
	return end
}
