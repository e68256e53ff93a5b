// Package agent implements the command agent: a whole coding agent in a sandbox, which works on a project.
//
// The table of agents, with their hosts and keys, is cli/setup/agents.go.
//
// Order of the files: agent has the commands; session makes the request of one; program finds the agent's files on this
// machine, home has its home, policy the project's own policy, registries the hosts of package registries, and watch
// bounds what it writes outside of the sandbox's own disk.
package agent

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/run"
	"github.com/sandboxmcp/sandboxmcp/cli/setup"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

// commands are the actions of this package on the streams of one invocation.
type commands struct{ *command.Streams }

// Command returns the command agent.
func Command(s *command.Streams) *cli.Command {
	p := commands{s}
	return &cli.Command{
		Name:  "agent",
		Usage: "run a whole coding agent in a sandbox, on a project",
		UsageText: `sandboxmcp agent NAME [flags] [-- ARGS...]
sandboxmcp agent list | show NAME | login NAME | reset NAME`,
		Description: "NAME is " + strings.Join(names(setup.Agents()), ", ") + `,
or one of the configuration, below agents.

The agent runs on this terminal, in the project of the current directory. It sees the project as /workspace, its own
program, the interpreters of this machine, and a home of its own for this project; nothing else of this machine. Its
work is a change set, which you review when it ends (--changes=ask), or which is applied then (--write); files that this
machine would run or obey later, such as hooks, are held back in both cases.

It reaches the hosts of its model. About others you are asked on the terminal, one by one; --allow, --packages and
.sandboxmcp.yaml in the project allow them before. At the end, refused hosts are listed. .sandboxmcp.yaml has a list
called allow; it is read once you have agreed to its content, and --remember writes it.

Its key comes from the vault, bound to the model's host: the agent has a placeholder, and the key is put in on the way.
Or sign in with sandboxmcp agent login NAME, which leaves the credentials in the agent's home.

Examples:
  sandboxmcp vault add ANTHROPIC_API_KEY --host api.anthropic.com
  sandboxmcp agent claude
  sandboxmcp agent codex --packages -- exec "fix the failing test"
  sandboxmcp audit --agent claude`,
		Flags: append(startFlags(),
			run.ChangesFlag(run.AskChanges, "what becomes of its changes: --changes=ask, --changes=apply applies them at exit code 0, "+
				"--changes=drop shows and drops them"),
			&cli.BoolFlag{Name: "write", Usage: "apply its changes when it ends, without a question"},
			&cli.BoolFlag{Name: "json", Usage: "print only the result, as JSON, at the end"},
			&cli.BoolFlag{Name: "quiet", Usage: "print only the agent's output and errors"},
		),
		Subcommands: []*cli.Command{p.listCommand(), p.showCommand(), p.loginCommand(), p.resetCommand()},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return exit.Usage("sandboxmcp agent list", "agent needs a NAME, or list, show, login or reset")
			}
			return exit.AsRefusal(p.start(c, c.Args().Tail(), false))
		},
	}
}

// startFlags are the flags of agent and agent login.
func startFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "project", Usage: "work in the project in `DIR`", Value: "."},
		&cli.StringSliceFlag{Name: "allow", Usage: "allow connections to `DOMAIN[:PORT]`, or to a port of this machine, localhost:3000"},
		&cli.BoolFlag{Name: "packages", Usage: "allow the registries that npm, pip and go are configured for, where the project uses them"},
		&cli.BoolFlag{Name: "remember", Usage: "write the hosts of --allow and --packages, and those that you allow on the terminal, to " +
			".sandboxmcp.yaml in the project"},
		&cli.StringSliceFlag{Name: "env", Usage: "set the environment variable `NAME=VALUE`", KeepSpace: true},
		&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the run, and of its secrets", Value: "default"},
	}
}

func names(agents []setup.Agent) (all []string) {
	for _, a := range agents {
		all = append(all, a.Name)
	}
	return all
}

// agentsOf returns the agents of the configuration, and the built-in ones that it does not replace.
func agentsOf(cfg config.Config) (all []setup.Agent) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Agents)) {
		one := cfg.Agents[name]
		a := setup.Agent{Name: name, Title: one.Command[0], Program: one.Command[0], Flags: one.Command[1:], Hosts: strings.Join(one.Allow, " "),
			Env: one.Env, Settings: one.Home}
		for _, secret := range one.Secrets {
			a.Keys = append(a.Keys, setup.AgentKey{Variable: secret, Host: "HOST"})
		}
		all = append(all, a)
	}
	for _, a := range setup.Agents() {
		if _, replaced := cfg.Agents[a.Name]; !replaced {
			all = append(all, a)
		}
	}
	return all
}

// find returns the agent that the first word names.
func find(c *cli.Context, cfg config.Config) (setup.Agent, error) {
	all, name := agentsOf(cfg), c.Args().First()
	i := slices.IndexFunc(all, func(a setup.Agent) bool { return a.Name == name })
	if i < 0 {
		return setup.Agent{}, exit.Usage("sandboxmcp agent list; the configuration adds others below agents", "unknown agent %s: use one of %s",
			terminal.Visible(name), strings.Join(names(all), ", "))
	}
	return all[i], nil
}

// start runs an agent, or its sign-in.
func (p commands) start(c *cli.Context, args []string, login bool) error {
	s, err := p.newSession(c, args, login)
	if err != nil {
		return err
	}
	j := run.Job{Terminal: s.interactive, Prepare: s.prepare, Started: s.watch, Finished: s.finish, Unreached: s.reportUnreached}
	switch {
	case login:
	case c.Bool("write") && c.IsSet("changes"):
		return exit.Usage("leave one of them out", "--write and --changes contradict each other")
	case c.Bool("write"):
		j.Changes = run.WriteChanges
	default:
		j.Changes = run.ChangesOf(c)
	}
	return run.Execute(p.Streams, c, j)
}

func (p commands) loginCommand() *cli.Command {
	return &cli.Command{
		Name:      "login",
		Usage:     "sign in to an agent's service, inside its sandbox",
		UsageText: "sandboxmcp agent login NAME [flags]",
		Description: `The agent's own sign-in runs on this terminal, in an empty directory. What it stores is in the agent's home for this
project, where the agent can read it; a key in the vault stays out of its reach.

Example: sandboxmcp agent login codex`,
		Flags: append(startFlags(), &cli.BoolFlag{Name: "json", Usage: "print only the result, as JSON, at the end"}),
		Action: command.ExactlyOneWord(func(c *cli.Context) error { return exit.AsRefusal(p.start(c, nil, true)) },
			"sandboxmcp agent list", "login needs the name of one agent"),
	}
}

// entry is an agent as list and show print it.
type entry struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Program  string   `json:"program,omitempty"` // its path; "" if it is not installed
	Hosts    []string `json:"hosts"`
	Refused  []string `json:"refused"` // without a question
	Keys     []string `json:"keys"`    // variables, which are also names of secrets
	Flags    []string `json:"flags"`
	Env      []string `json:"env"`
	Home     string   `json:"home"`
	HasHome  bool     `json:"has_home"`
	Policy   string   `json:"policy,omitempty"` // the project's own
	Accepted bool     `json:"policy_accepted"`
}

// entriesOf describes agents for the project of the command line.
func entriesOf(c *cli.Context, cfg config.Config, agents ...setup.Agent) (all []entry, err error) {
	project, err := projectDir(c)
	if err != nil {
		return nil, err
	}
	own, err := readPolicy(project)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		all = append(all, entryOf(cfg, a, project, own))
	}
	return all, nil
}

func entryOf(cfg config.Config, a setup.Agent, project string, own policy) entry {
	e := entry{Name: a.Name, Title: a.Title, Program: a.Installed(), Hosts: strings.Fields(a.Hosts), Refused: strings.Fields(a.Noise),
		Flags: a.Flags, Env: a.Env,
		Home: homeDir(cfg, a.Name, project)}
	for _, key := range a.Keys {
		e.Keys = append(e.Keys, key.Variable)
	}
	_, missing := os.Stat(e.Home)
	e.HasHome = missing == nil
	if own.text != nil {
		e.Policy, e.Accepted = own.path, isTrusted(cfg, own)
	}
	return e
}

func (p commands) listCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "list the agents that are known, and which are installed",
		UsageText:   "sandboxmcp agent list [--json]",
		Description: "HOME is whether the agent has a home for the project of the current directory.\n\nExample: sandboxmcp agent list",
		Flags:       []cli.Flag{command.JSONFlag()},
		Action: command.NoWords(wiring.WithConfig(func(_ context.Context, c *cli.Context, cfg config.Config) error {
			all, err := entriesOf(c, cfg, agentsOf(cfg)...)
			if err != nil {
				return err
			}
			return command.Table(p.Streams, c, all, "", terminal.Columns("NAME", "AGENT", "HOME", "PROGRAM"), func(e entry) []string {
				program, home := e.Program, "no"
				if program == "" {
					program = "not installed"
				}
				if e.HasHome {
					home = "yes"
				}
				return []string{e.Name, e.Title, home, program}
			})
		})),
	}
}

func (p commands) showCommand() *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show what an agent gets in its sandbox",
		UsageText:   "sandboxmcp agent show NAME [--json]",
		Description: "Example: sandboxmcp agent show claude",
		Flags:       []cli.Flag{command.JSONFlag()},
		Action: command.ExactlyOneWord(wiring.WithConfig(func(_ context.Context, c *cli.Context, cfg config.Config) error {
			a, err := find(c, cfg)
			if err != nil {
				return err
			}
			one, err := entriesOf(c, cfg, a)
			if err != nil {
				return err
			}
			e := one[0]
			return p.Print(c, e, func(w io.Writer) error {
				program, home, policy := e.Program, e.Home, e.Policy
				if program == "" {
					program = "not installed: there is no program " + a.Program + " on PATH"
				}
				if !e.HasHome {
					home += " (not there yet)"
				}
				if policy == "" {
					policy = "none: there is no " + policyName
				} else if !e.Accepted {
					policy += " (not accepted: it has no effect)"
				}
				_, err := fmt.Fprintf(w, "%s\nprogram:  %s\nhome:     %s\nhosts:    %s\nrefused:  %s\nkeys:     %s\nflags:    %s\nvariables: "+
					"%s\npolicy:   %s\nown sandbox: off, since sandboxes can't be nested\n",
					e.Title, program, home, join(e.Hosts), join(e.Refused), join(e.Keys), join(e.Flags), join(e.Env), policy)
				return err
			})
		}), "sandboxmcp agent list", "show needs the name of one agent"),
	}
}

// join joins words for people.
func join(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

func (p commands) resetCommand() *cli.Command {
	return &cli.Command{
		Name:        "reset",
		Usage:       "remove an agent's home for a project: its conversations, settings and sign-in",
		UsageText:   "sandboxmcp agent reset NAME [--project DIR | --all]",
		Description: "Example: sandboxmcp agent reset claude",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "project", Usage: "the project in `DIR`", Value: "."},
			&cli.BoolFlag{Name: "all", Usage: "remove its homes for all projects"},
			command.JSONFlag(),
		},
		Action: command.ExactlyOneWord(wiring.WithConfig(func(_ context.Context, c *cli.Context, cfg config.Config) error {
			a, err := find(c, cfg)
			if err != nil {
				return err
			}
			removed, err := resetHomes(c, cfg, a)
			if err != nil {
				return err
			}
			return p.Print(c, map[string][]string{"removed": append([]string{}, removed...)}, func(w io.Writer) error {
				if len(removed) == 0 {
					removed = []string{"nothing"}
				}
				_, err := fmt.Fprintf(w, "removed %s\n", strings.Join(slices.Sorted(slices.Values(removed)), "\n"))
				return err
			})
		}), "sandboxmcp agent list", "reset needs the name of one agent"),
	}
}
