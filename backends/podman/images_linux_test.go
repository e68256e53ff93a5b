package podman

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

func TestImages(t *testing.T) {
	e := testEngine(t)
	id := withImage(t, e)
	for _, reference := range []string{image, "guest:1", id, strings.TrimPrefix(id, "sha256:")} {
		i, err := e.Image(t.Context(), reference)
		if err != nil {
			t.Fatalf("%s: %v", reference, err)
		}
		if i.ID != id || !strings.HasPrefix(i.ID, "sha256:") || i.Digest != "" || i.Arch != e.conn.facts.Arch ||
			!slices.Equal(i.Names, []string{image}) || !slices.Equal(i.Volumes, []string{"/data"}) ||
			!slices.Contains(i.Env, "FROM_IMAGE=1") || i.Labels[container.LabelImage] != "guest" || i.Size < 1<<20 || i.Created.IsZero() {
			t.Errorf("%s: got %+v", reference, i)
		}
	}
	for label, want := range map[string]int{container.LabelImage: 1, container.LabelImage + "=guest": 1, container.LabelImage + "=other": 0} {
		if list, err := e.Images(t.Context(), label); err != nil || len(list) != want {
			t.Errorf("%s: got %+v, %v, want %d", label, list, err, want)
		}
	}
	if _, err := e.Image(t.Context(), "localhost/none:1"); !errors.Is(err, container.ErrNoImage) {
		t.Errorf("an image that is not there: %v", err)
	}
	err := e.Build(t.Context(), "localhost/bad:1", bytes.NewReader(
		pack(t, map[string][]byte{"Containerfile": []byte("FROM scratch\nCOPY none /\n")})), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a build that fails: %v", err)
	}
}

// TestPull fetches an image from a test registry that needs a login.
func TestPull(t *testing.T) {
	dir := newStore(t)
	word := strings.Repeat("w", 12)
	registry := httptest.NewServer(registryOf(t, "someone", word))
	defer registry.Close()
	host := strings.TrimPrefix(registry.URL, "http://")
	conf := filepath.Join(dir, "registries.conf")
	write(t, conf, fmt.Sprintf("[[registry]]\nlocation=%q\ninsecure=true\n", host))
	auth := filepath.Join(dir, "auth.json")
	write(t, auth, fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("someone:"+word))))
	start := func(environ ...string) *Engine {
		e := New(Config{
			Service: []string{"podman", "--root", dir + "/root", "--runroot", dir + "/run"}, Dir: t.TempDir(),
			Environ: append(append(os.Environ(), "CONTAINERS_REGISTRIES_CONF="+conf), environ...),
		}).(*Engine)
		t.Cleanup(func() { e.Close() })
		if _, err := e.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		return e
	}
	reference := host + "/some/thing:1"
	e := start("REGISTRY_AUTH_FILE=" + filepath.Join(dir, "none.json"))
	if err := e.Pull(t.Context(), reference, nil); err == nil {
		t.Error("fetched without a login")
	}
	e.env["REGISTRY_AUTH_FILE"] = auth
	var lines []string
	if err := e.Pull(t.Context(), reference, func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	if len(lines) < 2 || !strings.Contains(strings.Join(lines, "\n"), "Copying blob") {
		t.Errorf("progress: %q", lines)
	}
	i, err := e.Image(t.Context(), reference)
	if err != nil || !strings.HasPrefix(i.Digest, host+"/some/thing@sha256:") {
		t.Errorf("got %+v, %v", i, err)
	}
}

// registryOf serves one image with one file to clients that log in.
func registryOf(t *testing.T, user, word string) http.Handler {
	t.Helper()
	blobs := map[string][]byte{}
	add := func(data []byte) map[string]any {
		name := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		blobs[name] = data
		return map[string]any{"digest": name, "size": len(data)}
	}
	layer := pack(t, map[string][]byte{"file": []byte("content")})
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	w.Write(layer)
	w.Close()
	encode := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	config := add(encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}))
	config["mediaType"] = "application/vnd.oci.image.config.v1+json"
	blob := add(zipped.Bytes())
	blob["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip"
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest := encode(map[string]any{"schemaVersion": 2, "mediaType": kind, "config": config, "layers": []any{blob}})
	add(manifest)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		switch {
		case u != user || p != word:
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", kind)
			w.Write(manifest)
		case blobs[name] != nil:
			w.Write(blobs[name])
		case r.URL.Path == "/v2/":
		default:
			http.NotFound(w, r)
		}
	})
}
