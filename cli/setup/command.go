package setup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// commands are the actions of this package on the streams of one invocation.
type commands struct{ *command.Streams }

// Command returns the command setup.
func Command(s *command.Streams) *cli.Command {
	p := commands{s}
	return &cli.Command{
		Name:      "setup",
		Usage:     "connect an AI client",
		UsageText: "sandboxmcp setup [CLIENT] [--write|--remove] [flags]",
		Description: "CLIENT is " + strings.Join(clientNames(), ", ") + `.
Without one, all are listed: which are installed here, and which start this server already. With one it
shows what belongs into which file. --write enters that: by the client's own command where it is installed (claude mcp add), and
otherwise in its JSON file, where comments and all other settings stay; what neither can do is printed, to be pasted. The file
as it was is kept beside it, in one that ends with .sandboxmcp.bak.

Example: sandboxmcp setup cursor --write`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "write", Usage: "add it to the client's file"},
			&cli.BoolFlag{Name: "remove", Usage: "remove it from the client's file"},
			&cli.BoolFlag{Name: "dry-run", Usage: "with --write or --remove: only print the new file, or the commands"},
			&cli.StringFlag{Name: "project", Usage: "use the file of the project in `DIR` instead of the user's"},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the client; '*' lets it choose"},
			&cli.StringFlag{Name: "workspace", Usage: "let its agent work in a directory, as `NAME=DIR`, such as app=."},
			command.ToolsFlag("which tools the client lists, as `WHICH`: all or on (those that the configuration has on)", ""),
			&cli.StringFlag{Name: "name", Usage: "call the server `NAME` there", Value: "sandboxmcp"},
			command.JSONFlag(),
		},
		Subcommands: []*cli.Command{p.systemdCommand(), p.kubernetesCommand()},
		Action:      p.setup,
	}
}

// serverName matches names that all clients accept for a server.
var serverName = lazy.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// setup lists the clients, prints a client's entry, or changes its file, as the arguments say.
func (p commands) setup(c *cli.Context) error {
	write, remove := c.Bool("write"), c.Bool("remove")
	_, err := command.ToolsOn(c)
	switch {
	case c.NArg() == 0 && (write || remove):
		return exit.Usage("sandboxmcp setup", "the client is missing")
	case c.NArg() > 1:
		return exit.Usage("sandboxmcp setup --help", "unexpected argument %q", c.Args().Get(1))
	case write && remove:
		return exit.Usage("sandboxmcp setup --help", "--write and --remove contradict each other")
	case !serverName().MatchString(c.String("name")):
		return exit.Usage("--name sandboxmcp", "%s is not a name of a server: use letters, digits, - and _",
			terminal.Visible(fmt.Sprintf("%q", c.String("name"))))
	case err != nil:
		return err
	case c.NArg() == 0:
		return p.listClients(c)
	}
	client, ok := FindClient(c.Args().First())
	if !ok {
		return exit.Usage("sandboxmcp setup", "%s is not a known client: use one of %s", terminal.Visible(c.Args().First()),
			strings.Join(clientNames(), " "))
	}
	o, change, err := inspect(c, client, remove)
	switch {
	case o.Path == "":
		return err
	case !write && !remove:
		return p.printEntry(c, client, o)
	case err != nil:
		return exit.Fail("sandboxmcp setup "+argumentsTyped(c)+" shows what belongs there", "%v", err)
	}
	return p.apply(c, client, o, change)
}

// state is a client with the state of its file and the changes made to it.
type state struct {
	Client     string   `json:"client"`
	Path       string   `json:"path,omitempty"` // the file, on this machine
	Installed  bool     `json:"installed"`
	Configured bool     `json:"configured"`         // the file has a server of that name
	Current    bool     `json:"current"`            // it starts this program: --write would change nothing
	Flags      []string `json:"flags,omitempty"`    // arguments after serve
	Note       string   `json:"note,omitempty"`     // further conditions of the client for starting it
	Problem    string   `json:"problem,omitempty"`  // why setup can't change the file
	Snippet    string   `json:"snippet,omitempty"`  // the entry to add
	Changed    bool     `json:"changed"`            // by --write or --remove
	Runs       []string `json:"runs,omitempty"`     // the client's own commands for it
	Backup     string   `json:"backup,omitempty"`   // copy of the previous file
	Would      string   `json:"would_be,omitempty"` // the file after the change
}

// inspect returns the state of a client's file, and the change that adds the server to it, or removes it. Its error is
// also the state's problem.
func inspect(c *cli.Context, client Client, remove bool) (o state, change Change, err error) {
	o = state{Client: client.Name, Installed: client.Installed(ThisMachine()), Note: client.Note}
	t, err := targetOf(c, client)
	if err != nil {
		o.Problem = err.Error()
		return o, change, err
	}
	server, err := thisServer(c, t)
	if err == nil {
		change, err = t.plan(server, remove)
	}
	if err == nil && isGoRun(server.Command) && !remove {
		err = errors.New("go run built this program and will remove it: use go install ./cli/sandboxmcp")
	}
	o.Path, o.Snippet, o.Configured = t.path, t.Snippet(server), change.had
	for _, words := range change.Runs {
		o.Runs = append(o.Runs, shellLine(words))
	}
	if err != nil {
		o.Problem = err.Error()
	} else if o.Current = o.Configured && !change.hasEffect(); o.Current {
		o.Flags = server.Args[slices.Index(server.Args, "serve")+1:]
	}
	return o, change, err
}

// listClients prints all clients, with the states of their files.
func (p commands) listClients(c *cli.Context) error {
	var all []state
	for _, client := range Clients() {
		o, _, _ := inspect(c, client, false)
		all = append(all, o)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	return command.Table(p.Streams, c, all, "", terminal.Columns("CLIENT", "INSTALLED", "CONFIGURED", "FILE"), func(o state) []string {
		configured := yes[o.Configured]
		switch {
		case o.Configured && !o.Current:
			configured = "differently"
		case strings.HasSuffix(o.Problem, errByHand.Error()):
			configured = "by hand"
		case o.Problem != "":
			configured = "?"
		case len(o.Flags) > 0:
			configured += ", " + shellLine(o.Flags)
		}
		return []string{o.Client, yes[o.Installed], configured, cmp.Or(o.Path, o.Problem)}
	})
}

// printEntry prints the entry that a client's file needs, even if the file can't be read.
func (p commands) printEntry(c *cli.Context, client Client, o state) error {
	next := "put it there with: sandboxmcp setup " + argumentsTyped(c) + " --write"
	switch {
	case o.Problem != "":
		next = terminal.Visible(o.Problem) + "\nput it in by hand"
	case o.Current:
		next = "it is there already"
	}
	if o.Note != "" {
		next += "\n\n" + o.Note
	}
	return p.Printf(c, o, "%s reads its servers from %s\n\nIt needs\n\n%s\n%s\n", client.Title, terminal.Visible(o.Path),
		safetext.Text(o.Snippet), next)
}

// argumentsTyped returns the client and the flags of this invocation, for a command line in a hint.
func argumentsTyped(c *cli.Context) string {
	words := []string{c.Args().First()}
	for _, flag := range []string{"project", "namespace", "tools", "name"} {
		if c.IsSet(flag) {
			words = append(words, "--"+flag, c.String(flag))
		}
	}
	return shellLine(words)
}

// apply makes the change, or prints it with --dry-run.
func (p commands) apply(c *cli.Context, client Client, o state, change Change) error {
	file, name := terminal.Visible(o.Path), c.String("name")
	text := fmt.Sprintf("%s: %s is in it; restart %s", file, name, client.Title)
	if o.Snippet = ""; change.remove {
		o.Note, text = "", fmt.Sprintf("%s: %s was removed; restart %s", file, name, client.Title)
	}
	switch {
	case !change.hasEffect() && change.remove:
		return p.Printf(c, o, "%s has no %s, nothing to do\n", file, name)
	case !change.hasEffect():
		return p.Printf(c, o, "%s: %s already exists, nothing to do\n", file, name)
	case c.Bool("dry-run") && len(o.Runs) > 0:
		return p.Printf(c, o, "would run: %s\n", strings.Join(o.Runs, "\n           "))
	case c.Bool("dry-run"):
		o.Would = string(change.after)
		return p.Printf(c, o, "%s would be:\n%s\n", file, safetext.Text(o.Would))
	}
	if err := change.apply(c.Context); err != nil {
		return exit.Fail("sandboxmcp setup "+argumentsTyped(c)+" shows what belongs there", "%v", err)
	}
	o.Changed, o.Configured, o.Current = true, !change.remove, !change.remove
	for _, command := range o.Runs {
		text += "\nby " + command
	}
	if change.there {
		o.Backup = change.path + backupSuffix
		text += "\nwhat was there is kept in " + terminal.Visible(o.Backup)
	}
	if o.Note != "" {
		text += "\n" + o.Note
	}
	return p.Printf(c, o, "%s\n", text)
}
