package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Kinds of words that a shell's completion asks for.
const (
	askSessions  = "sessions"
	askApprovals = "approvals"
	askServers   = "servers"
	askRuns      = "runs"
	askVault     = "vault"
)

// completionTimeout is how long somebody waits who has pressed a key.
const completionTimeout = time.Second

// plainWord is a word that no shell makes something else of: bash expands the words that it is offered.
var plainWord = lazy.Regexp(`^[A-Za-z0-9._-]+$`)

// askCommand prints words for the scripts of completion, a line each. It says nothing when it knows none, or
// when something is wrong: an error would be written into the line that somebody types.
func (p *program) askCommand() *cli.Command {
	return &cli.Command{
		Name: "__complete", Hidden: true,
		Usage:       "print words for the completion of a shell",
		UsageText:   "sandboxmcp __complete sessions|approvals|servers|runs|vault",
		Description: "Example: sandboxmcp __complete sessions",
		Action: func(c *cli.Context) error {
			cfg, err := wiring.Load(c)
			if err != nil {
				return nil
			}
			ctx, cancel := context.WithTimeout(c.Context, completionTimeout)
			defer cancel()
			for _, word := range wordsFor(ctx, c, cfg) {
				if plainWord().MatchString(word) {
					fmt.Fprintln(p.Out, word)
				}
			}
			return nil
		},
	}
}

func wordsFor(ctx context.Context, c *cli.Context, cfg config.Config) (words []string) {
	switch c.Args().First() {
	case askRuns:
		if !exists(wiring.ResultsDir(cfg)) {
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
	case askSessions, askApprovals, askServers:
		clients, _ := servers(ctx, c)
		for _, client := range clients {
			words = append(words, heardOf(ctx, client, c.Args().First())...)
			client.Close()
		}
	}
	return words
}

// heardOf are words that a server knows.
func heardOf(ctx context.Context, client *control.Client, kind string) (words []string) {
	switch kind {
	case askServers:
		return []string{client.Server().Name}
	case askSessions:
		list, _ := client.Sessions(ctx, "")
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
