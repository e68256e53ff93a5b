// Package client implements the commands that show and control a running server: sessions, queue, limits, events and
// approvals.
package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// WithServerHint is WithServer with a hint on errors of the server.
func WithServerHint(c *cli.Context, f func(context.Context, *control.Client) error) error {
	return WithServer(c, func(ctx context.Context, client *control.Client) error { return withHint(f(ctx, client)) })
}

// CallServer sends a request of a route to the selected server and shows the response.
func CallServer[A, R any](c *cli.Context, what *operation.Route[A, R], args A, show func(R) error) error {
	return WithServerHint(c, func(ctx context.Context, client *control.Client) error {
		answer, err := control.Call(ctx, client, what, args)
		if err != nil {
			return err
		}
		return show(answer)
	})
}

// withHint adds a hint to a server's error.
func withHint(err error) error {
	var f *control.Failure
	if !errors.As(err, &f) {
		return err
	}
	hint := f.Hint
	switch f.Status {
	case http.StatusNotFound:
		hint = "sandboxmcp session list"
	case http.StatusConflict:
		hint = "type more of the id"
	case http.StatusGone:
		hint = "sandboxmcp session create starts a new one; variables and files of this one are gone"
	}
	return exit.Fail(hint, "%s", f.Text)
}

// ServerNamespaceFlag returns --namespace, for commands that a server executes.
func ServerNamespaceFlag() cli.Flag {
	return &cli.StringFlag{Name: "namespace", Usage: "in the namespace `NS`", DefaultText: serverNamespaceText}
}

// ServerNamespace returns the namespace in the command line, or the server's own.
func ServerNamespace(c *cli.Context, client *control.Client) string {
	return cmp.Or(c.String("namespace"), client.Server().Namespace, "default")
}

func sessionFlag() cli.Flag {
	return &cli.StringFlag{Name: "id", Usage: "`ID` of the session, or its prefix, instead of the word ID"}
}

// sessionArgument returns the session that the command line names, by --id or its first word, and the remaining words.
func sessionArgument(c *cli.Context, limit int) (id string, rest []string, err error) {
	words := c.Args().Slice()
	if id = c.String("id"); id == "" && len(words) > 0 {
		id, words = words[0], words[1:]
	}
	switch {
	case id == "":
		return "", nil, exit.Usage("sandboxmcp session list", "%s needs the id of a session", c.Command.Name)
	case len(words) > limit:
		return "", nil, exit.Usage(c.Command.HelpName+" --help", "%s: unexpected argument %q", c.Command.Name, words[limit])
	}
	return id, words, nil
}

// findSession returns the session of an id or of its prefix.
func findSession(ctx context.Context, client *control.Client, id string) (session.Info, error) {
	list, err := control.Call(ctx, client, control.ListUsage, control.OfLimits{Session: id})
	switch {
	case err != nil:
		return session.Info{}, withHint(err)
	case len(list) == 0:
		return session.Info{}, exit.Fail("sandboxmcp session list", "session %s has just ended", terminal.Visible(id))
	}
	return list[0].Info, nil
}

// serverNamespaceText is the default of --namespace in help texts.
const serverNamespaceText = `the server's, or "default"`

// serverLimitsText is the default of limits in help texts: the server knows it.
const serverLimitsText = "see sandboxmcp limits"

// Commands returns the commands of this package.
func Commands(s *command.Streams) []*cli.Command {
	p := commands{s}
	return []*cli.Command{
		p.approvalsCommand(), p.approveCommand(), p.denyCommand(), p.egressCommand(), p.eventsCommand(), p.queueCommand(), p.sessionCommand(),
		p.inspectCommand(), p.bridgeCommand(), p.limitsCommand(),
		p.startCommand(), p.stopCommand(), p.statusCommand(), p.pageCommand(),
	}
}

// commands are the actions of this package on the streams of one invocation.
type commands struct{ *command.Streams }
