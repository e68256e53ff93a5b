package setup

import (
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
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
		UsageText: "sandboxmcp setup kubernetes --image IMAGE [--namespace NAME] [--pods N] [--memory GB] [--kustomize DIR]",
		Description: `A namespace that takes restricted pods only, a network policy that denies sandboxes everything, a quota, a priority class, an
account with the few rights that a server needs and one for sandboxes, without any, and a server with its configuration. IMAGE is what
sandboxmcp image build server makes. A server elsewhere needs all but the last object, and the same settings. With --kustomize, the
objects and a kustomization.yaml are written to a new directory instead, for kubectl apply -k and for overlays.

Examples:
  sandboxmcp setup kubernetes --image registry.example.com/sandboxmcp:1 | kubectl apply -f -
  sandboxmcp setup kubernetes --image registry.example.com/sandboxmcp:1 --kustomize base`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "image", Usage: "`IMAGE` of the server"},
			&cli.StringFlag{Name: "namespace", Usage: "`NAME` of the namespace", Value: "sandboxmcp"},
			&cli.IntFlag{Name: "pods", Usage: "how many pods there may be, as `N`", Value: 100},
			&cli.StringFlag{Name: "kustomize", Usage: "write to the new directory `DIR`, with a kustomization.yaml"},
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
	text := strings.NewReplacer("@NAMESPACE@", namespace, "@IMAGE@", image,
		"@MEMORY@", strconv.Itoa(c.Int("memory")), "@PODS@", strconv.Itoa(c.Int("pods"))).Replace(manifests)
	if dir := c.String("kustomize"); dir != "" {
		return p.kustomize(dir, text)
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

const kustomization = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - sandboxmcp.yaml
`

// kustomize writes the objects to a directory that is not there yet: another may have been edited.
func (p commands) kustomize(dir, text string) error {
	above, name, err := hostfs.Parent(dir)
	if err != nil {
		return command.NotThere("--kustomize NEW-DIRECTORY", "--kustomize", err)
	}
	defer above.Close()
	if err := above.Mkdir(name, 0o755); err != nil {
		return exit.Fail("--kustomize NEW-DIRECTORY", "make the directory %s: %v", terminal.Visible(dir), err)
	}
	made, err := hostfs.Enter(above, name)
	if err != nil {
		return err
	}
	defer made.Close()
	for name, content := range map[string]string{"sandboxmcp.yaml": text, "kustomization.yaml": kustomization} {
		if err := made.WriteFile(name, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the objects: %w", err)
		}
	}
	_, err = fmt.Fprintf(p.Out, "kubectl apply -k %s\n", terminal.Visible(dir))
	return err
}
