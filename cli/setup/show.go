package setup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// clientState is a client with the state of its file.
type clientState struct {
	Client     string            `json:"client"`
	Title      string            `json:"title"`
	Path       string            `json:"path,omitempty"` // the file, on this machine
	Installed  bool              `json:"installed"`
	Configured bool              `json:"configured"`      // the file has a server of that name
	Current    bool              `json:"current"`         // and --write would change nothing: it starts this program
	Flags      []string          `json:"flags,omitempty"` // arguments after serve
	Note       string            `json:"note,omitempty"`  // further conditions of the client for starting it
	Problem    string            `json:"problem,omitempty"`
	Paths      map[string]string `json:"paths,omitempty"` // of the user's file, by system
	Snippet    string            `json:"snippet,omitempty"`
}

// setupShow prints the entry that a client's file needs, also if the file can't be read: planned is that error.
func (p commands) setupShow(c *cli.Context, client Client, path string, change Change, server Server, planned error) error {
	o := clientStateOf(client, path, server, change, planned)
	o.Snippet = client.Snippet(server)
	o.Paths = map[string]string{"linux": client.PathOn("linux"), "macos": client.PathOn("darwin"), "windows": client.PathOn("windows")}
	var b strings.Builder
	fmt.Fprintf(&b, "%s reads its servers from\n", o.Title)
	for _, system := range [][2]string{{"Linux", "linux"}, {"macOS", "macos"}, {"Windows", "windows"}} {
		terminal.Fact(&b, system[0], o.Paths[system[1]])
	}
	if client.Project != "" {
		terminal.Fact(&b, "in a project", client.Project)
	}
	terminal.Fact(&b, "here", path)
	fmt.Fprintf(&b, "\nIt needs\n\n%s\n", asLines(o.Snippet))
	switch {
	case o.Problem != "":
		fmt.Fprintf(&b, "\n%s\nput it in by hand\n", terminal.Visible(o.Problem))
	case o.Current:
		b.WriteString("\nit is there already\n")
	default:
		fmt.Fprintf(&b, "\nput it there with: sandboxmcp setup %s --write\n", strings.Join(setupWords(c), " "))
	}
	if o.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", o.Note)
	}
	return p.Printf(c, o, "%s", b.String())
}

// setupWords returns the client and the flags of this invocation, to be typed again.
func setupWords(c *cli.Context) []string {
	words := []string{c.Args().First()}
	for _, flag := range []string{"project", "namespace", "name"} {
		if c.IsSet(flag) {
			words = append(words, "--"+flag, terminal.ShellWord(c.String(flag)))
		}
	}
	return words
}

// setupList prints all clients, with the states of their files.
func (p commands) setupList(c *cli.Context) error {
	var all []clientState
	for _, client := range Clients() {
		all = append(all, p.inspectClient(c, client))
	}
	yes := map[bool]string{true: "yes", false: "no"}
	return command.Table(p.Streams, c, all, "", terminal.Columns("CLIENT", "INSTALLED", "CONFIGURED", "FILE"), func(o clientState) []string {
		configured := yes[o.Configured]
		switch {
		case o.Problem != "":
			configured = "?"
		case o.Configured && !o.Current:
			configured = "differently"
		case o.Configured && len(o.Flags) > 0:
			configured += ", " + strings.Join(o.Flags, " ")
		}
		return []string{o.Client, yes[o.Installed], configured, cmp.Or(o.Path, o.Problem)}
	})
}

// inspectClient returns the state of a client's file.
func (p commands) inspectClient(c *cli.Context, client Client) clientState {
	if c.String("project") != "" && client.Project == "" {
		return clientStateOf(client, "", Server{}, Change{}, errors.New("it has no configuration of projects"))
	}
	path, err := clientFile(c, client)
	server, err2 := thisServer(c, client, path)
	if err = cmp.Or(err, err2); err != nil {
		return clientStateOf(client, "", server, Change{}, err)
	}
	change, err := client.Add(path, server)
	return clientStateOf(client, path, server, change, err)
}

// clientStateOf returns the state of a client's file, or with an error the problem with it.
func clientStateOf(client Client, path string, server Server, change Change, err error) clientState {
	o := clientState{Client: client.Name, Title: client.Title, Path: path, Installed: client.Installed(Here()), Note: client.Note}
	if err != nil {
		o.Problem = err.Error()
		return o
	}
	o.Configured, _ = client.Has(path, server.Name)
	if o.Current = o.Configured && !change.Changes(); o.Current {
		for i, word := range server.Args[slices.Index(server.Args, "serve")+1:] {
			if i%2 == 1 {
				word = terminal.ShellWord(word)
			}
			o.Flags = append(o.Flags, word)
		}
	}
	return o
}
