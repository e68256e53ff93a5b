package setup

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
)

// setupKubernetes runs the command with arguments.
func setupKubernetes(args ...string) (string, error) {
	var out bytes.Buffer
	app := &cli.App{Commands: []*cli.Command{Command(&command.Streams{Out: &out, Err: io.Discard})},
		ExitErrHandler: func(*cli.Context, error) {}}
	err := app.Run(append([]string{"sandboxmcp", "setup", "kubernetes"}, args...))
	return out.String(), err
}

// TestKubernetes parses the output. Package backends/kubernetes applies the same objects to a cluster.
func TestKubernetes(t *testing.T) {
	out, err := setupKubernetes("--image", "registry.example.com/x:1", "--namespace", "agents")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "@") {
		t.Errorf("a place was not filled in: %s", out)
	}
	var kinds []string
	for d := yaml.NewDecoder(strings.NewReader(out)); ; {
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Spec     struct{ Hard map[string]string }
		}
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, o.Kind)
		if space := o.Metadata.Namespace + o.Metadata.Name; !strings.Contains(space, "agents") {
			t.Errorf("%s %s is in namespace %q", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
		}
		if o.Kind == "ResourceQuota" && (o.Spec.Hard["pods"] != "100" || o.Spec.Hard["limits.memory"] != "128Gi") {
			t.Errorf("quota %v", o.Spec.Hard)
		}
	}
	if want := []string{"Namespace", "NetworkPolicy", "NetworkPolicy", "PriorityClass", "ResourceQuota", "ServiceAccount", "ServiceAccount",
		"Role", "RoleBinding",
		"ClusterRole", "ClusterRoleBinding", "ConfigMap", "StatefulSet"}; !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
	if n := strings.Count(out, "registry.example.com/x:1"); n != 2 {
		t.Errorf("the image stands there %d times", n)
	}
	// Names that YAML would parse as numbers.
	if out, err = setupKubernetes("--image", "456", "--namespace", "123"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasSuffix(line, " 123") || strings.HasSuffix(line, " 456") {
			t.Errorf("not quoted: %s", line)
		}
	}
	for _, bad := range [][]string{
		{}, {"--image", "a b"}, {"--image", "x\ny: z"}, {"--image", "x", "--namespace", "A"}, {"--image", "x", "--namespace", "a\nb: c"},
		{"--image", "x", "more"},
	} {
		if out, err := setupKubernetes(bad...); err == nil || out != "" {
			t.Errorf("%q: got %.60q, %v", bad, out, err)
		}
	}
}
