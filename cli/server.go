package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// asking connects to the server that the command line means, and says what the server refuses in words of the command line.
func asking(c *cli.Context, f func(context.Context, *control.Client) error) error {
	return withServer(c, func(ctx context.Context, client *control.Client) error { return inCommands(f(ctx, client)) })
}

// inCommands is an error of a server as the command line tells it.
func inCommands(err error) error {
	var f *control.Failure
	if !errors.As(err, &f) {
		return err
	}
	hint := ownWords(f.Hint)
	switch f.Status {
	case http.StatusNotFound:
		hint = "sandboxmcp session list"
	case http.StatusConflict:
		hint = "type more of the id"
	case http.StatusGone:
		hint = "sandboxmcp session create starts a new one; variables and files of this one are gone"
	}
	return fail(hint, "%s", f.Text)
}

// ownWords says in commands what a server says in tools, whose callers are agents.
func ownWords(text string) string { return toolNames.Replace(text) }

var toolNames = strings.NewReplacer(
	"create one with create_session, or leave session_id out", "sandboxmcp session list",
	"create a session of that language, or leave session_id out", "sandboxmcp session create --language LANGUAGE",
	"choose mode overwrite or append, or for a copy overwrite,", "--mode overwrite or append, or for a copy --overwrite,",
	"create_session", "sandboxmcp session create", "terminate_session", "sandboxmcp session kill ID",
	"set_resource_limits", "sandboxmcp limits --session ID", "install_package", "sandboxmcp install",
	"ask a person for it with request_egress, or do without it", "sandboxmcp egress DOMAIN --namespace NS",
	"request_egress", "sandboxmcp egress DOMAIN", "bridge_data", "sandboxmcp bridge",
	"at most timeout ", "at most --timeout ", "more with timeout", "more with --timeout", "resource_limits.max_ram_mb", "--ram", "resource_limits.max_cpu_cores", "--cpu",
	"resource_limits.max_processes", "--processes", "resource_limits.max_output_bytes", "--output",
	"limits.disk_mb in the operator's configuration", "--disk",
)

func inServersNamespace() cli.Flag {
	return &cli.StringFlag{Name: "namespace", Usage: "in the namespace `NS`", DefaultText: serversNamespace}
}

// ofServer is the namespace that a command line means: where it names none, that which a server keeps its agents in.
func ofServer(c *cli.Context, client *control.Client) string {
	return cmp.Or(c.String("namespace"), client.Server().Namespace, "default")
}

func idFlag() cli.Flag {
	return &cli.StringFlag{Name: "id", Usage: "`ID` of the session, or its beginning, instead of the word ID"}
}

// sessionNamed returns the session that a command line names, by --id or by its first word, and the words after it.
func sessionNamed(c *cli.Context, limit int) (id string, rest []string, err error) {
	words := c.Args().Slice()
	if id = c.String("id"); id == "" && len(words) > 0 {
		id, words = words[0], words[1:]
	}
	switch {
	case id == "":
		return "", nil, usage("sandboxmcp session list", "%s needs the id of a session", c.Command.Name)
	case len(words) > limit:
		return "", nil, usage(c.Command.HelpName+" --help", "%s has no use for %q", c.Command.Name, words[limit])
	}
	return id, words, nil
}

// living returns the session that an id, or its beginning, names.
func living(ctx context.Context, client *control.Client, id string) (session.Info, error) {
	list, err := client.Usage(ctx, "", id)
	switch {
	case err != nil:
		return session.Info{}, inCommands(err)
	case len(list) == 0:
		return session.Info{}, fail("sandboxmcp session list", "session %s has just ended", visible(id))
	}
	return list[0].Info, nil
}
