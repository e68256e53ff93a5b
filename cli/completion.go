package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/client"
	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/complete"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

const completionHint = "sandboxmcp completion bash, zsh or fish"

func (p *program) completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		UsageText: "sandboxmcp completion bash|zsh|fish",
		Description: `Install it where the shell finds it, or source it:

  bash   source <(sandboxmcp completion bash)
         sandboxmcp completion bash > ~/.local/share/bash-completion/completions/sandboxmcp
  zsh    source <(sandboxmcp completion zsh)
         sandboxmcp completion zsh > "${fpath[1]}/_sandboxmcp"
  fish   sandboxmcp completion fish | source
         sandboxmcp completion fish > ~/.config/fish/completions/sandboxmcp.fish

Example: source <(sandboxmcp completion bash)`,
		Action: command.ExactlyOneWord(func(c *cli.Context) error {
			shell := c.Args().First()
			if !slices.Contains(complete.Shells(), shell) {
				return exit.Usage(completionHint, "no completion for %q", shell)
			}
			return complete.Script(p.Out, shell, c.App.Name)
		}, completionHint, "completion needs the name of one shell"),
	}
}

// completeLine returns the completions of the last of the words typed after the program's name. ask returns the words of a
// kind that a server or the state directory knows.
func completeLine(app *cli.App, typed []string, ask func(kind string) []string) (s complete.Source, words []complete.Word) {
	at, path := &cli.Command{Subcommands: app.Commands}, ""
	ended, others := false, false
	var value *complete.Source // of the flag before the next word
	last := typed[len(typed)-1]
	for _, word := range typed[:len(typed)-1] {
		switch sub := slices.IndexFunc(at.Subcommands, func(c *cli.Command) bool { return c.Name == word && !c.Hidden }); {
		case value != nil:
			if word != "=" { // a separate word in bash
				value = nil
			}
		case ended:
		case word == "--":
			ended = true
		case strings.HasPrefix(word, "-"):
			value = flagValueSource(app, at, path, word)
		case !others && sub >= 0:
			at, path = at.Subcommands[sub], strings.TrimSpace(path+" "+word)
		default:
			others = true
		}
	}
	name, _, inline := strings.Cut(last, "=")
	prefix := ""
	switch isFlag := !ended && strings.HasPrefix(last, "-"); {
	case value != nil:
		s = *value
	case isFlag && inline:
		if value = flagValueSource(app, at, path, name); value != nil {
			s, prefix = *value, name+"="
		}
	case isFlag:
		words = append(flagCompletions(slices.Concat(at.Flags, app.Flags)), complete.Word{Text: "--help", Usage: "show help"})
	default:
		for _, sub := range at.Subcommands {
			if !others && !ended && !sub.Hidden {
				words = append(words, complete.Word{Text: sub.Name, Usage: sub.Usage})
			}
		}
		s = argumentSource(path, at)
	}
	if s.Ask != "" {
		s.Words = ask(s.Ask)
	}
	for _, word := range s.Words {
		words = append(words, complete.Word{Text: prefix + word})
	}
	return s, words
}

// flagValueSource returns the completions of the value of a flag of a command, or nil if unknown flag or it takes no
// value.
func flagValueSource(app *cli.App, at *cli.Command, path, typed string) *complete.Source {
	name := strings.TrimLeft(typed, "-")
	f := cmdline.FindFlag(at.Flags, name)
	if f == nil {
		f, path = cmdline.FindFlag(app.Flags, name), ""
	}
	if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() {
		return valueSource(path, f.Names()[0], d.GetUsage())
	}
	return nil
}

// flagCompletions lists flags as they are typed, without help.
func flagCompletions(flags []cli.Flag) (words []complete.Word) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok || f.Names()[0] == "help" {
			continue
		}
		for _, name := range f.Names() {
			dashes := map[bool]string{true: "-", false: "--"}[len(name) == 1]
			words = append(words, complete.Word{Text: dashes + name, Usage: strings.ReplaceAll(d.GetUsage(), "`", "")})
		}
	}
	return words
}

// Kinds of words that a shell's completion asks for.
const (
	askSessions  = "sessions"
	askApprovals = "approvals"
	askServers   = "servers"
	askRuns      = "runs"
	askVault     = "vault"
	askTokens    = "tokens"
)

// completionTimeout bounds the answer to a press of the tab key.
const completionTimeout = time.Second

// plainWord matches words without special characters: bash expands the words that it is offered.
var plainWord = lazy.Regexp(`^[A-Za-z0-9._-]+$`)

// completionWordsCommand answers the completion scripts: it prints the words that can stand at the cursor, or those of a kind, a
// line each. It prints no errors, which would appear in the line that is being typed.
func (p *program) completionWordsCommand() *cli.Command {
	return &cli.Command{
		Name: "__complete", Hidden: true,
		Usage:       "print words for the completion of a shell",
		UsageText:   "sandboxmcp __complete words bash|zsh|fish\nsandboxmcp __complete sessions|approvals|servers|runs|vault|tokens",
		Description: "Example: sandboxmcp __complete sessions",
		Action: func(c *cli.Context) error {
			if c.Args().First() != "words" {
				for _, word := range completionWords(c, c.Args().First()) {
					fmt.Fprintln(p.Out, word)
				}
				return nil
			}
			typed, err := io.ReadAll(io.LimitReader(p.In, maxLine))
			if err != nil || len(typed) == 0 {
				return nil
			}
			words := strings.Split(strings.TrimSuffix(string(typed), "\x00"), "\x00")
			s, offered := completeLine(c.App, words, func(kind string) []string { return completionWords(c, kind) })
			return complete.Print(p.Out, c.Args().Get(1), s, offered)
		},
	}
}

// maxLine bounds the command line that is completed, in bytes.
const maxLine = 1 << 20

// completionWords returns the words of a kind that match plainWord.
func completionWords(c *cli.Context, kind string) []string {
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context, completionTimeout)
	defer cancel()
	return slices.DeleteFunc(wordsOfKind(ctx, c, cfg, kind), func(word string) bool { return !plainWord().MatchString(word) })
}

func wordsOfKind(ctx context.Context, c *cli.Context, cfg config.Config, kind string) (words []string) {
	switch kind {
	case askRuns:
		if _, err := os.Stat(wiring.ResultsDir(cfg)); err != nil {
			return nil
		}
		store, err := wiring.OpenResults(cfg)
		if err != nil {
			return nil
		}
		defer store.Close()
		for _, r := range store.List(results.Filter{Limit: 100}) {
			words = append(words, r.ID)
		}
	case askVault:
		words, _ = vault.NewSealed(cfg.StateDir, nil).Names(ctx, "")
	case askTokens:
		list, _ := identity.OpenTokens(cfg.StateDir).List()
		for _, t := range list {
			words = append(words, t.Name)
		}
	case askSessions, askApprovals, askServers:
		clients, _ := client.ConnectServers(ctx, c)
		for _, client := range clients {
			words = append(words, serverWords(ctx, client, kind)...)
			client.Close()
		}
	}
	return words
}

// serverWords returns the words of a kind that a server knows.
func serverWords(ctx context.Context, client *control.Client, kind string) (words []string) {
	switch kind {
	case askServers:
		return []string{client.Server().Name}
	case askSessions:
		list, _ := control.Call(ctx, client, control.ListSessions, control.InNamespace{})
		for _, s := range list {
			if s.State != "dead" {
				words = append(words, s.ID)
			}
		}
	case askApprovals:
		list, _ := client.Approvals(ctx)
		for _, q := range list {
			words = append(words, q.ID)
		}
	}
	return words
}
