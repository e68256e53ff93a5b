package setup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// commands are the actions, on the streams of an invocation.
type commands struct{ *command.Streams }

// Command returns the command setup.
func Command(s *command.Streams) *cli.Command {
	p := commands{s}
	flags := []cli.Flag{
		&cli.BoolFlag{Name: "write", Usage: "merge it into the client's file"},
		&cli.BoolFlag{Name: "remove", Usage: "take it out of the client's file"},
		&cli.BoolFlag{Name: "dry-run", Usage: "with --write or --remove: only show what the file would be"},
		&cli.StringFlag{Name: "project", Usage: "the file of the project in the directory `DIR`, and not the user's"},
		&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` that the client works in; '*' is any that it names"},
		command.ToolsFlag("which tools the client lists, as `WHICH`: all or on (those that the configuration has on)", ""),
		&cli.StringFlag{Name: "name", Usage: "call the server `NAME` there", Value: "sandboxmcp"},
		command.JSONFlag(),
	}
	return &cli.Command{
		Name:      "setup",
		Usage:     "make an agent's program start this server",
		UsageText: "sandboxmcp setup [CLIENT] [--write|--remove] [flags]",
		Description: "CLIENT is " + strings.Join(clientNames(), ", ") + `.
Without one, all are listed: which are installed here, and which start this server already. With one it
shows what belongs into which file. --write merges that in and keeps what was there beside it, in a file that ends
with .sandboxmcp.bak, until --remove has taken it out again; comments and all other settings stay as they are.

Example: sandboxmcp setup cursor --write`,
		Flags:       flags,
		Subcommands: []*cli.Command{p.systemdCommand(), p.kubernetesCommand()},
		Action:      p.setup,
	}
}

func clientNames() (all []string) {
	for _, c := range Clients() {
		all = append(all, c.Name)
	}
	return all
}

// setup lists the clients, shows one's entry, or changes its file, as the arguments ask.
func (p commands) setup(c *cli.Context) error {
	switch {
	case c.NArg() == 0 && (c.Bool("write") || c.Bool("remove")):
		return exit.Usage("sandboxmcp setup", "say which client is meant")
	case c.NArg() == 0:
		return p.setupList(c)
	case c.NArg() > 1:
		return exit.Usage("sandboxmcp setup --help", "setup has no use for %q", c.Args().Get(1))
	case c.Bool("write") && c.Bool("remove"):
		return exit.Usage("sandboxmcp setup --help", "--write and --remove can't be both")
	case strings.TrimSpace(c.String("name")) == "" || terminal.Visible(c.String("name")) != c.String("name"):
		return exit.Usage("--name sandboxmcp", "%s is no name of a server", terminal.Visible(fmt.Sprintf("%q", c.String("name"))))
	}
	client, ok := Find(c.Args().First())
	if !ok {
		return exit.Usage("sandboxmcp setup", "%s is no client that is known: use one of %s", terminal.Visible(c.Args().First()), strings.Join(clientNames(), " "))
	}
	path, err := clientFile(c, client)
	if err != nil {
		return err
	}
	if _, err := command.ToolsOn(c); err != nil {
		return err
	}
	server, err := thisServer(c, client, path)
	if err != nil {
		return err
	}
	if c.Bool("remove") {
		change, err := client.Remove(path, server.Name)
		return p.setupDo(c, client, change, server, err)
	}
	change, err := client.Add(path, server)
	if passing(server.Command) {
		err = errors.New("go run has made this program, and removes it")
		if c.Bool("write") {
			return exit.Fail("go install ./cli/sandboxmcp, and use the program that it makes", "%v", err)
		}
	}
	if !c.Bool("write") {
		return p.setupShow(c, client, path, change, server, err)
	}
	return p.setupDo(c, client, change, server, err)
}

// clientFile returns the path of the client's file that the command line means.
func clientFile(c *cli.Context, client Client) (string, error) {
	dir := c.String("project")
	if dir == "" {
		path, err := client.UserFile(Here())
		if err != nil {
			return "", exit.Fail("set HOME, or use --project DIR", "%v", err)
		}
		return filepath.Abs(path)
	}
	dir, err := hostfs.Abs(dir)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", exit.Fail("--project .", "%s is no directory", terminal.Visible(dir))
	}
	path, err := client.ProjectFile(dir)
	if err != nil {
		return "", exit.Fail("sandboxmcp setup "+client.Name, "%v", err)
	}
	if _, err := hostfs.Resolve(path); errors.As(err, new(*hostfs.Link)) { // programs work in projects
		return "", exit.Usage("put the file itself there, or remove the link", "%v", err)
	}
	return path, nil
}

// passing reports whether go run has made the program, by the go-build directory in its path, and will remove it.
func passing(program string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(program), "/"), func(dir string) bool { return strings.HasPrefix(dir, "go-build") })
}

// thisProgram returns the path by which this program was started, if that leads to it: the resolved path may hold a version,
// as package managers have it, and goes away with the next one. A path that is not UTF-8 is an error.
func thisProgram() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if !utf8.ValidString(program) {
		return "", fmt.Errorf("the path of this program, %q, is no text, as clients' files are", program)
	}
	typed, err := exec.LookPath(os.Args[0])
	if err == nil {
		typed, err = filepath.Abs(typed)
	}
	if err != nil || !utf8.ValidString(typed) {
		return program, nil
	}
	is, err := os.Stat(program)
	if at, err2 := os.Stat(typed); err == nil && err2 == nil && os.SameFile(is, at) {
		return typed, nil
	}
	return program, nil
}

// anyNamespace is --namespace of a server whose clients name the namespace themselves.
const anyNamespace = "*"

// setupFlags are the flags that setup hands on: those of the program, and those of serve after it.
var setupFlags = [2][]string{{"config", "db"}, {"namespace", "tools"}}

// thisServer returns how clients start this program. The paths in its flags are absolute, since clients start it in any
// directory. A flag that was not typed is taken from the entry that setup wrote there before, so that writing the entry
// anew removes no namespace.
func thisServer(c *cli.Context, client Client, path string) (s Server, err error) {
	s.Name = c.String("name")
	if s.Command, err = thisProgram(); err != nil {
		return s, err
	}
	there, _, _ := client.Entry(path, s.Name) // what can't be read is said when it is written
	before := writtenFlags(there.Args)
	for i, flags := range setupFlags {
		if i > 0 {
			s.Args = append(s.Args, "serve")
		}
		for _, flag := range flags {
			value := c.String(flag)
			switch {
			case !c.IsSet(flag):
				value = before[flag]
			case flag == "namespace" && value == anyNamespace:
				value = ""
			case i == 0 && value != "":
				if value, err = filepath.Abs(value); err != nil {
					return s, err
				}
			}
			if value != "" {
				s.Args = append(s.Args, "--"+flag, value)
			}
		}
	}
	return s, nil
}

// writtenFlags returns the flags in a server's arguments, by name, or nil if setup can't have written the arguments.
func writtenFlags(args []string) map[string]string {
	found := map[string]string{}
	for i, flags := range setupFlags {
		if i > 0 {
			if len(args) == 0 || args[0] != "serve" {
				return nil
			}
			args = args[1:]
		}
		for len(args) > 1 && strings.HasPrefix(args[0], "--") && slices.Contains(flags, args[0][2:]) {
			found[args[0][2:]] = args[1]
			args = args[2:]
		}
	}
	if len(args) > 0 {
		return nil
	}
	return found
}

// setupDo applies the change, or with --dry-run shows the file as it would be.
func (p commands) setupDo(c *cli.Context, client Client, change Change, server Server, err error) error {
	if err != nil {
		return exit.Fail("sandboxmcp setup "+client.Name+" shows what belongs there", "%v", err)
	}
	dry := c.Bool("dry-run")
	if !dry {
		if err := change.Apply(); err != nil {
			return err
		}
	}
	o := setupOutcome{Client: client.Name, Path: change.Path, Changed: change.Changes(), DryRun: dry, Server: server.Name}
	if !c.Bool("remove") {
		o.Note = client.Note
	}
	if change.HasBackup() {
		o.Backup = change.Backup()
	}
	if dry && change.Changes() {
		o.Would = string(change.After)
	}
	text := o.text(c.Bool("remove"), change.Remove, client)
	if client.Note != "" && !c.Bool("remove") && !dry {
		text += "\n" + client.Note
	}
	return p.Printf(c, o, "%s\n", text)
}

// setupOutcome is the change to a client's file, as JSON shows it.
type setupOutcome struct {
	Client  string `json:"client"`
	Server  string `json:"server"`
	Path    string `json:"path"`
	Changed bool   `json:"changed"`          // or would be
	Backup  string `json:"backup,omitempty"` // where what was before is kept
	Note    string `json:"note,omitempty"`   // further conditions of the client for starting the server
	DryRun  bool   `json:"dry_run,omitempty"`
	Would   string `json:"would_be,omitempty"` // the whole file, as it would be
}

// text describes the outcome for people. gone means that the whole file is removed.
func (o setupOutcome) text(remove, gone bool, client Client) string {
	file, name := terminal.Visible(o.Path), terminal.Visible(o.Server)
	switch {
	case !o.Changed && remove:
		return fmt.Sprintf("%s: there is no %s, nothing to do", file, name)
	case !o.Changed:
		return fmt.Sprintf("%s: %s is there already, nothing to do", file, name)
	case o.DryRun && gone:
		return file + " would be removed: nothing else is in it"
	case o.DryRun:
		return file + " would be:\n" + asLines(o.Would)
	case gone:
		return file + ": removed, since nothing else was in it"
	case remove:
		return fmt.Sprintf("%s: %s is taken out; restart %s", file, name, client.Title)
	}
	text := fmt.Sprintf("%s: %s is in it; restart %s", file, name, client.Title)
	if o.Backup != "" {
		text += "\nwhat was there is kept in " + terminal.Visible(o.Backup)
	}
	return text
}

// asLines returns a file's text for display: without byte order mark and carriage returns, made safe by safetext.Text.
func asLines(text string) string {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	return strings.TrimRight(safetext.Text(text), "\n")
}
