package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// manifests returns the objects that `sandboxmcp setup kubernetes` prints, as JSON.
func manifests(t *testing.T, namespace, image string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile("../../cli/setup/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("@NAMESPACE@", namespace, "@IMAGE@", image).Replace(string(text))
	for d := yaml.NewDecoder(strings.NewReader(filled)); ; {
		var o map[string]any
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// apply creates the objects that setup prints with strict validation: unknown fields are errors. Objects that keep
// rejects are only dry-run.
func apply(t *testing.T, admin *client, image string, keep func(o map[string]any) bool) {
	t.Helper()
	paths := map[string]string{
		"NetworkPolicy": admin.pathOf("networking.k8s.io/v1", "networkpolicies", ""), "ResourceQuota": admin.pathOf("v1", "resourcequotas", ""),
		"ServiceAccount": admin.pathOf("v1", "serviceaccounts", ""), "Role": admin.pathOf("rbac.authorization.k8s.io/v1", "roles", ""),
		"RoleBinding": admin.pathOf("rbac.authorization.k8s.io/v1", "rolebindings", ""), "StatefulSet": admin.pathOf("apps/v1", "statefulsets",
			""),
		"ConfigMap": admin.pathOf("v1", "configmaps", ""), "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
		"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	}
	for _, o := range manifests(t, admin.namespace, image) {
		kind := o["kind"].(string)
		if kind == "Namespace" { // the test's own namespace has the same restrictions
			continue
		}
		params := url.Values{"fieldValidation": {"Strict"}}
		if !keep(o) {
			params.Set("dryRun", "All")
		}
		if err := admin.call(t.Context(), http.MethodPost, paths[kind], params, o, nil); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if strings.HasPrefix(kind, "Cluster") || kind == "PriorityClass" {
			t.Cleanup(func() {
				admin.call(context.Background(), http.MethodDelete, paths[kind]+"/sandboxmcp-"+admin.namespace, nil, nil, nil)
			})
		}
	}
}

// TestRights runs a sandbox with exactly the rights that setup grants a server.
func TestRights(t *testing.T) {
	c := testConfig(t)
	admin := apiOf(t, c)
	apply(t, admin, ownImage, func(o map[string]any) bool { return o["kind"] != "StatefulSet" }) // needs a server's image
	server := c
	server.Account, server.PriorityClass = "sandboxmcp-sandbox", "sandboxmcp-"+c.Namespace
	server.Kubeconfig = accountConfig(t, admin)
	b := newBackend(t, server, 1)
	closeLater(t, b)
	for range 2 { // of a new pod, and of the pool
		s := start(t, b, backends.Spec{Language: "shell", Require: PromisedLayers()})
		if o := execute(t, s, "bash", "-c", "echo it runs"); o.stdout != "it runs\n" {
			t.Errorf("got %q, %q", o.stdout, o.stderr)
		}
	}
	api := apiOf(t, server)
	for _, path := range []string{
		"/api/v1/namespaces/default/pods", "/api/v1/namespaces", api.pathOf("v1", "secrets", ""), api.pathOf("v1", "configmaps", ""),
		api.pathOf("v1", "serviceaccounts", ""), "/api/v1/namespaces/kube-system/secrets",
	} {
		if err := api.get(t.Context(), path, nil, nil); !isStatus(err, http.StatusForbidden) {
			t.Errorf("%s: got %v, want forbidden", path, err)
		}
	}
	privileged := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "root"}, "spec": map[string]any{
		"hostPID": true, "containers": []any{map[string]any{"name": "a", "image": programImage}}}}
	if err := api.call(t.Context(), http.MethodPost, api.pathOf("v1", "pods", ""), nil, privileged, nil); !isStatus(err,
		http.StatusForbidden) {
		t.Errorf("a privileged pod: got %v, want forbidden", err)
	}
}

// accountConfig returns a kubeconfig with a token of the server's account.
func accountConfig(t *testing.T, admin *client) string {
	t.Helper()
	var made struct{ Status struct{ Token string } }
	ask := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 3600}}
	if err := admin.call(t.Context(), http.MethodPost, admin.pathOf("v1", "serviceaccounts", "sandboxmcp")+"/token", nil, ask, &made); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&config); err != nil {
		t.Fatal(err)
	}
	for _, u := range config["users"].([]any) {
		u.(map[string]any)["user"] = map[string]any{"token": made.Status.Token}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	out, err := json.Marshal(config) // JSON is YAML, too
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
