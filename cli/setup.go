package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/setup"
)

func (p *program) setupCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.BoolFlag{Name: "write", Usage: "merge it into the client's file"},
		&cli.BoolFlag{Name: "remove", Usage: "take it out of the client's file"},
		&cli.BoolFlag{Name: "dry-run", Usage: "with --write or --remove: only show what the file would be"},
		&cli.StringFlag{Name: "project", Usage: "the file of the project in the folder `DIR`, and not the user's"},
		&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` that the client works in"},
		&cli.StringFlag{Name: "name", Usage: "call the server `NAME` there", Value: "sandboxmcp"},
		jsonFlag(),
	}
	return &cli.Command{
		Name:      "setup",
		Usage:     "make an agent's program start this server",
		UsageText: "sandboxmcp setup [" + strings.Join(clientNames(), "|") + "] [--write|--remove] [flags]",
		Description: `Without a client it lists them: which are installed here, and which start this server already. With one it
shows what belongs into which file. --write merges that in and keeps what was there beside it, in a file that ends
with .sandboxmcp.bak, until --remove has taken it out again; comments and all other settings stay as they are.

Example: sandboxmcp setup cursor --write`,
		Flags:  flags,
		Action: p.setup,
	}
}

func clientNames() (all []string) {
	for _, c := range setup.Clients() {
		all = append(all, c.Name)
	}
	return all
}

// here is this machine, as the paths of clients go.
func here() setup.Place {
	home, _ := os.UserHomeDir() // "" is said where it matters
	return setup.Place{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}

func (p *program) setup(c *cli.Context) error {
	switch {
	case c.NArg() == 0 && (c.Bool("write") || c.Bool("remove")):
		return usage("sandboxmcp setup", "say which client is meant")
	case c.NArg() == 0:
		return p.setupList(c)
	case c.NArg() > 1:
		return usage("sandboxmcp setup --help", "setup has no use for %q", c.Args().Get(1))
	case c.Bool("write") && c.Bool("remove"):
		return usage("sandboxmcp setup --help", "--write and --remove can't be both")
	case strings.TrimSpace(c.String("name")) == "" || strings.ContainsFunc(c.String("name"), func(r rune) bool { return r < ' ' }):
		return usage("--name sandboxmcp", "%s is no name of a server", visible(fmt.Sprintf("%q", c.String("name"))))
	}
	client, ok := setup.Find(c.Args().First())
	if !ok {
		return usage("sandboxmcp setup", "%s is no client that is known: use one of %s", visible(c.Args().First()), strings.Join(clientNames(), " "))
	}
	path, err := clientFile(c, client)
	if err != nil {
		return err
	}
	server, err := thisServer(c)
	if err != nil {
		return err
	}
	if c.Bool("remove") {
		change, err := client.Remove(path, server.Name)
		return p.setupDo(c, client, change, server, err)
	}
	change, err := client.Add(path, server)
	if !c.Bool("write") {
		return p.setupShow(c, client, path, change, server, err)
	}
	return p.setupDo(c, client, change, server, err)
}

// clientFile is the file that is meant.
func clientFile(c *cli.Context, client setup.Client) (string, error) {
	dir := c.String("project")
	if dir == "" {
		path, err := client.UserFile(here())
		if err != nil {
			return "", fail("set HOME, or use --project DIR", "%v", err)
		}
		return filepath.Abs(path)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", fail("--project .", "%s is no folder", visible(dir))
	}
	path, err := client.ProjectFile(dir)
	if err != nil {
		return "", fail("sandboxmcp setup "+client.Name, "%v", err)
	}
	return path, nil
}

// thisServer is how clients start this program, with what was said of its files: they start it in any folder.
func thisServer(c *cli.Context) (s setup.Server, err error) {
	s.Name = c.String("name")
	if s.Command, err = os.Executable(); err != nil {
		return s, fmt.Errorf("find this program: %w", err)
	}
	for _, flag := range []string{"config", "db"} {
		if file := c.String(flag); file != "" {
			if file, err = filepath.Abs(file); err != nil {
				return s, err
			}
			s.Args = append(s.Args, "--"+flag, file)
		}
	}
	s.Args = append(s.Args, "serve")
	if namespace := c.String("namespace"); namespace != "" {
		s.Args = append(s.Args, "--namespace", namespace)
	}
	return s, nil
}

// setupDo does what was planned, or with --dry-run shows what the file would be.
func (p *program) setupDo(c *cli.Context, client setup.Client, change setup.Change, server setup.Server, err error) error {
	if err != nil {
		return fail("sandboxmcp setup "+client.Name+" shows what belongs there", "%v", err)
	}
	dry := c.Bool("dry-run")
	if !dry {
		if err := change.Apply(); err != nil {
			return err
		}
	}
	o := setupOutcome{Client: client.Name, Path: change.Path, Changed: change.Changes(), DryRun: dry, Server: server.Name}
	if change.Kept() {
		o.Backup = change.Backup()
	}
	if dry && change.Changes() {
		o.Would = string(change.After)
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, o)
	}
	_, err = fmt.Fprintln(p.stdout, o.text(c.Bool("remove"), change.Remove, client))
	return err
}

// setupOutcome is what became of a client's file.
type setupOutcome struct {
	Client  string `json:"client"`
	Server  string `json:"server"`
	Path    string `json:"path"`
	Changed bool   `json:"changed"`          // or would be
	Backup  string `json:"backup,omitempty"` // where what was before is kept
	DryRun  bool   `json:"dry_run,omitempty"`
	Would   string `json:"would_be,omitempty"` // the whole file, as it would be
}

func (o setupOutcome) text(remove, gone bool, client setup.Client) string {
	file, name := visible(o.Path), visible(o.Server)
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
		text += "\nwhat was there is kept in " + visible(o.Backup)
	}
	return text
}

// asLines is a file's text as it is shown, without what its lines end with.
func asLines(text string) string {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	return strings.TrimRight(visibleLines(text), "\n")
}

// setupShown is what is known of one client.
type setupShown struct {
	Client     string            `json:"client"`
	Title      string            `json:"title"`
	Path       string            `json:"path,omitempty"` // the file, on this machine
	Installed  bool              `json:"installed"`
	Configured bool              `json:"configured"` // the file has a server of that name
	Current    bool              `json:"current"`    // and it starts this very program, like this
	Problem    string            `json:"problem,omitempty"`
	Paths      map[string]string `json:"paths,omitempty"` // of the user's file, by system
	Snippet    string            `json:"snippet,omitempty"`
}

// setupShow shows what belongs into a client's file. That the file can't be read is no reason not to.
func (p *program) setupShow(c *cli.Context, client setup.Client, path string, change setup.Change, server setup.Server, planned error) error {
	o := setupShown{Client: client.Name, Title: client.Title, Path: path, Installed: client.Installed(here()), Snippet: client.Snippet(server),
		Paths: map[string]string{"linux": client.Shown("linux"), "macos": client.Shown("darwin"), "windows": client.Shown("windows")}}
	if planned != nil {
		o.Problem = planned.Error()
	} else {
		o.Configured, _ = client.Has(path, server.Name)
		o.Current = o.Configured && !change.Changes()
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, o)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s reads its servers from\n", o.Title)
	for _, system := range [][2]string{{"Linux", "linux"}, {"macOS", "macos"}, {"Windows", "windows"}} {
		fact(&b, system[0], o.Paths[system[1]])
	}
	if client.Project != "" {
		fact(&b, "in a project", client.Project)
	}
	fact(&b, "here", path)
	fmt.Fprintf(&b, "\nIt needs\n\n%s\n", asLines(o.Snippet))
	switch {
	case o.Problem != "":
		fmt.Fprintf(&b, "\n%s\nput it in by hand\n", visible(o.Problem))
	case o.Current:
		b.WriteString("\nit is there already\n")
	default:
		fmt.Fprintf(&b, "\nput it there with: sandboxmcp setup %s --write\n", strings.Join(setupWords(c), " "))
	}
	_, err := fmt.Fprint(p.stdout, b.String())
	return err
}

// setupWords are what was typed after setup, to be typed again.
func setupWords(c *cli.Context) []string {
	words := []string{c.Args().First()}
	for _, flag := range []string{"project", "namespace", "name"} {
		if c.IsSet(flag) {
			words = append(words, "--"+flag, shellWord(c.String(flag)))
		}
	}
	return words
}

// shellWord is a word as a shell takes it, and a terminal shows it.
func shellWord(s string) string {
	s = visible(s)
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (p *program) setupList(c *cli.Context) error {
	var all []setupShown
	for _, client := range setup.Clients() {
		all = append(all, p.lookAt(c, client))
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, all)
	}
	t := newTable(p.stdout, columnsOf("CLIENT", "INSTALLED", "CONFIGURED", "FILE")...)
	yes := map[bool]string{true: "yes", false: "no"}
	for _, o := range all {
		configured := yes[o.Configured]
		if o.Configured && !o.Current {
			configured = "differently"
		}
		if o.Problem != "" {
			configured = "?"
		}
		if err := t.Row(o.Client, yes[o.Installed], configured, cmp.Or(o.Path, o.Problem)); err != nil {
			return err
		}
	}
	return t.Close()
}

// lookAt says what is known of a client's file.
func (p *program) lookAt(c *cli.Context, client setup.Client) setupShown {
	o := setupShown{Client: client.Name, Title: client.Title, Installed: client.Installed(here())}
	if c.String("project") != "" && client.Project == "" {
		o.Problem = "it has no configuration of projects"
		return o
	}
	path, err := clientFile(c, client)
	server, err2 := thisServer(c)
	if err = cmp.Or(err, err2); err != nil {
		o.Problem = err.Error()
		return o
	}
	o.Path = path
	change, err := client.Add(path, server)
	if err != nil {
		o.Problem = err.Error()
		return o
	}
	o.Configured, _ = client.Has(path, server.Name)
	o.Current = o.Configured && !change.Changes()
	return o
}
