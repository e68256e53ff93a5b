package setup

import (
	_ "embed"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

//go:embed kubernetes.yaml
var manifests string

// namespaceName matches what the API takes as a namespace.
var namespaceName = lazy.Regexp(`^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$`)

// kubernetesCommand returns the command that prints what an administrator of a cluster applies.
func (p commands) kubernetesCommand() *cli.Command {
	return &cli.Command{
		Name:      "kubernetes",
		Usage:     "print the objects that a cluster needs for the backend kubernetes",
		UsageText: "sandboxmcp setup kubernetes --image IMAGE [--namespace NAME] [--pods N] [--memory GB]",
		Description: `A namespace that takes restricted pods only, a network policy that denies sandboxes everything, a quota, an account with
the few rights that a server needs, and a server. IMAGE has this program as /sandboxmcp and as /.sandboxmcp/init. A server elsewhere
needs all but the last object. The namespace is the setting kubernetes.namespace.

Example: sandboxmcp setup kubernetes --image registry.example.com/sandboxmcp:1 | kubectl apply -f -`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "image", Usage: "`IMAGE` of the server"},
			&cli.StringFlag{Name: "namespace", Usage: "`NAME` of the namespace", Value: "sandboxmcp"},
			&cli.IntFlag{Name: "pods", Usage: "how many pods there may be, as `N`", Value: 100},
			&cli.IntFlag{Name: "memory", Usage: "how much memory they may have together, as `GB`", Value: 128},
		},
		Action: command.NoWords(p.kubernetes),
	}
}

func (p commands) kubernetes(c *cli.Context) error {
	namespace, image := c.String("namespace"), c.String("image")
	switch {
	case !namespaceName().MatchString(namespace):
		return exit.Usage("--namespace sandboxmcp", "%q is no name of a namespace", namespace)
	case image == "":
		return exit.Usage("--image registry.example.com/sandboxmcp:1", "say which image the server has")
	case c.Int("pods") < 1 || c.Int("memory") < 1:
		return exit.Usage("--pods 100 --memory 128", "there must be room for one pod and 1 GB at least")
	}
	if err := config.CheckImage(image); err != nil {
		return exit.Usage("--image registry.example.com/sandboxmcp:1", "%v", err)
	}
	_, err := io.WriteString(p.Out, strings.NewReplacer("@NAMESPACE@", namespace, "@IMAGE@", image,
		"@MEMORY@", strconv.Itoa(c.Int("memory")), "@PODS@", strconv.Itoa(c.Int("pods"))).Replace(manifests))
	return err
}
