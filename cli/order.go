package cli

import (
	"cmp"
	"slices"

	"github.com/urfave/cli/v2"
)

// order is in which order the help shows the commands: what somebody needs first comes first. What is not
// in it comes last.
func order() []string {
	return []string{
		"run", "validate", "install", "runtimes", "artifacts", // code
		"setup", "serve", "session", "queue", "inspect", "bridge", "limits", "events", // agents and their server
		"approvals", "approve", "deny", "egress", "vault", // what people decide
		"web", "host", // outside of sandboxes
		"audit", "verify", "key", // what stays
		"doctor", "config", "image", "bench", "completion", "man", "version", // this machine
	}
}

func inOrder(commands []*cli.Command) []*cli.Command {
	place := map[string]int{}
	for i, name := range order() {
		place[name] = i + 1
	}
	slices.SortStableFunc(commands, func(a, b *cli.Command) int {
		return cmp.Compare(cmp.Or(place[a.Name], len(place)+1), cmp.Or(place[b.Name], len(place)+1))
	})
	return commands
}
