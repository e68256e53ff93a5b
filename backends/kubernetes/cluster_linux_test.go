package kubernetes

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	_ "github.com/sandboxmcp/sandboxmcp/backends/container/inside" // this binary is its own init in a pod
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// thing is the word for a cluster in SANDBOXMCP_TEST_REQUIRE.
const thing = "kubernetes"

// Images of the tests, which the tests import into their node.
const (
	ownImage     = "docker.io/sandboxmcp-test/" + enginetest.Own + ":local"
	programImage = "docker.io/sandboxmcp-test/" + enginetest.Hostile + ":local"
)

// kubeconfig returns the cluster's kubeconfig.
var kubeconfig = enginetest.Kubeconfig

// testConfig returns the configuration for a namespace of this test, with the "restricted" pod security standard.
func testConfig(t testing.TB) Config {
	t.Helper()
	for _, name := range []string{enginetest.Own, enginetest.Hostile} {
		enginetest.NodeImage(t, name)
	}
	c := Config{Kubeconfig: kubeconfig, Namespace: "test-" + strings.ToLower(ulid.Make().String()), Image: ownImage, NeverPull: true,
		Overcommit: 20}
	api := apiOf(t, c)
	space := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.Namespace,
		"labels": map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}}}
	if err := api.call(t.Context(), http.MethodPost, "/api/v1/namespaces", nil, space, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.call(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+c.Namespace, nil, nil, nil); err != nil {
			t.Error(err)
		}
	})
	hosttest.Until(t, "the namespace has its account", func() bool {
		return api.get(t.Context(), api.pathOf("v1", "serviceaccounts", "default"), nil, nil) == nil
	})
	return c
}

func apiOf(t testing.TB, c Config) *client {
	t.Helper()
	api, err := newClient(c)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// testBackend is a backend with its engine.
type testBackend struct {
	Backend
	engine *kubernetes
}

// newBackend returns a backend with the tests' images.
func newBackend(t testing.TB, c Config, ahead int) testBackend {
	t.Helper()
	return newBackendIn(filepath.Join(t.TempDir(), "state"), c, ahead)
}

// testImages returns the images of all languages in our own image.
func testImages() map[string]string {
	images := map[string]string{}
	for _, l := range backends.Languages {
		images[l] = programImage
	}
	delete(images, "r")
	return images
}

// newBackendIn returns a backend with a state directory that others may share.
func newBackendIn(stateDir string, c Config, ahead int) testBackend {
	e := New(c)
	return testBackend{Backend{container.New(e, container.Config{Images: testImages(), Pull: "never", StateDir: stateDir, Ahead: ahead})},
		e.(*kubernetes)}
}

// closeLater closes a backend at the end of a test.
func closeLater(t testing.TB, b backends.Backend) {
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// podsOf lists the pods of a namespace.
func podsOf(t testing.TB, c Config) []pod {
	t.Helper()
	var list struct{ Items []pod }
	api := apiOf(t, c)
	if err := api.get(context.Background(), api.pathOf("v1", "pods", ""), nil, &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// output is a program's output and exit.
type output struct {
	backends.Result
	stdout, stderr string
}

func execute(t testing.TB, s backends.Sandbox, args ...string) output {
	t.Helper()
	var out, errs bytes.Buffer
	r, err := s.Exec(t.Context(), backends.Command{Args: args}, backends.Streams{Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("%.80q: %v", args, err)
	}
	return output{r, out.String(), errs.String()}
}

func start(t testing.TB, b backends.Backend, spec backends.Spec) backends.Sandbox {
	t.Helper()
	if spec.ID == "" {
		spec.ID = ulid.Make().String()
	}
	if spec.Limits.Wall == 0 {
		spec.Limits.Wall = time.Minute
	}
	s, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close sandbox: %v", err)
		}
	})
	return s
}
