package setup

import (
	_ "embed"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

//go:embed kubernetes.yaml
var manifests string

// namespaceName matches valid namespaces of the API.
var namespaceName = lazy.Regexp(`^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$`)

// kubernetesCommand returns the command that prints manifests for an administrator of a cluster.
func (p commands) kubernetesCommand() *cli.Command {
	return &cli.Command{
		Name:      "kubernetes",
		Usage:     "print the manifests that a cluster needs for the backend kubernetes",
		UsageText: "sandboxmcp setup kubernetes --image IMAGE [--namespace NAME]",
		Description: `A namespace for restricted pods only, a network policy that denies sandboxes everything, a quota, a priority class, an account with
the few rights that a server needs, one without rights for sandboxes, and a server with its configuration. sandboxmcp image build server
builds IMAGE. A server elsewhere needs all but the last object, and the same settings.

Example: sandboxmcp setup kubernetes --image registry.example.com/sandboxmcp:1 | kubectl apply -f -`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "image", Usage: "`IMAGE` of the server"},
			&cli.StringFlag{Name: "namespace", Usage: "`NAME` of the namespace", Value: "sandboxmcp"},
		},
		Action: command.NoWords(p.kubernetes),
	}
}

func (p commands) kubernetes(c *cli.Context) error {
	namespace, image := c.String("namespace"), c.String("image")
	if !namespaceName().MatchString(namespace) {
		return exit.Usage("--namespace sandboxmcp", "%q is not a name of a namespace", namespace)
	}
	if err := config.CheckImage(image); err != nil {
		return exit.Usage("--image registry.example.com/sandboxmcp:1", "the image of the server: %v", err)
	}
	_, err := strings.NewReplacer("@NAMESPACE@", namespace, "@IMAGE@", image).WriteString(p.Out, manifests)
	return err
}
