package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/container/image"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

const serverImage = "docker.io/sandboxmcp-test/server:local"

// buildServer builds this program, and returns the binary's path.
func buildServer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "sandboxmcp")
	build := exec.Command("go", "build", "-o", program, "../../cli/sandboxmcp")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		hosttest.SkipMissing(t, "go", string(out))
	}
	return program
}

// importServer imports an image of this program into the node.
func importServer(t *testing.T) {
	t.Helper()
	program, archive := buildServer(t), filepath.Join(t.TempDir(), "server.tar")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	s := image.Server{Binary: program, Arch: "amd64", Certificates: backends.Authorities()}
	if err := errors.Join(s.Save(f, serverImage), f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ctr", "-a", enginetest.NodeSocket(), "-n", "k8s.io", "images", "import", archive).CombinedOutput(); err != nil {
		t.Fatalf("import: %v %s", err, out)
	}
}

// TestServerInCluster runs the server's image with the objects that setup prints: in the restricted namespace, with
// its account and configuration. A run there is a pod of that namespace with the sandboxes' account and priority.
func TestServerInCluster(t *testing.T) {
	c := testConfig(t)
	importServer(t)
	admin := apiOf(t, c)
	apply(t, admin, serverImage, func(o map[string]any) bool {
		switch o["kind"] {
		case "ConfigMap":
			data := o["data"].(map[string]any)
			data["config.yaml"] = data["config.yaml"].(string) + "containers: {pull: never}\nimages: {shell: \"" + programImage + "\"}\n"
		case "StatefulSet":
			adapt(o["spec"].(map[string]any), admin)
		}
		return true
	})
	var p pod
	hosttest.Until(t, "the server runs", func() bool {
		if err := admin.get(t.Context(), admin.pathOf("v1", "pods", "sandboxmcp-0"), nil, &p); err != nil {
			return false
		}
		return p.Status.container("server").State.Running != nil
	})
	out, err := executeIn(t, admin, "sandboxmcp-0", "server", "/sandboxmcp", "--config", "/config/config.yaml", "run", "--language", "shell", "-c", "echo from a pod; cat /var/run/secrets/kubernetes.io/serviceaccount/token")
	if !strings.Contains(out, "from a pod\n") || !strings.Contains(out, "No such file") {
		t.Fatalf("got %q, %v", out, err)
	}
	if out, err := executeIn(t, admin, "sandboxmcp-0", "server", "/bin/sh", "-c", "true"); err == nil {
		t.Errorf("the server's image has a shell: %s", out)
	}
	out, _ = executeIn(t, admin, "sandboxmcp-0", "server", "/sandboxmcp", "--config", "/config/config.yaml", "doctor")
	if strings.Contains(out, "missing:") || !strings.Contains(out, "can run in containers of kubernetes") {
		t.Errorf("doctor says %s", out)
	}
}

// adapt changes the server's pod for a node without storage for claims, registry and service addresses.
func adapt(spec map[string]any, api *client) {
	delete(spec, "volumeClaimTemplates")
	in := spec["template"].(map[string]any)["spec"].(map[string]any)
	in["volumes"] = append(in["volumes"].([]any), map[string]any{"name": "state", "emptyDir": map[string]any{}})
	server := in["containers"].([]any)[0].(map[string]any)
	server["imagePullPolicy"] = "Never"
	server["env"] = append(server["env"].([]any), map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": api.base.Hostname()},
		map[string]any{"name": "KUBERNETES_SERVICE_PORT", "value": api.base.Port()})
}

// executeIn executes a command in a container, as kubectl does.
func executeIn(t testing.TB, api *client, pod, in string, command ...string) (string, error) {
	t.Helper()
	params := url.Values{"container": {in}, "stdout": {"true"}, "stderr": {"true"}, "command": command}
	at := *api.base
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "/")+api.pathOf("v1", "pods", pod)+"/exec", params.Encode()
	var errs bytes.Buffer
	conn, err := api.webSocket(t.Context(), at.String(), &errs)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	out, err := io.ReadAll(conn)
	return string(out) + errs.String(), err
}
