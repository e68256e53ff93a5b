package enginecheck_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestPull pulls images from a registry: public ones, a missing one, and one that requires a login.
func TestPull(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind string) {
		s := newScene(t, kind)
		open, closed := imageRegistry(t, s.url, ""), imageRegistry(t, s.url, "someone")
		word := "w" + strings.Repeat("x", 8)
		login := []byte(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, closed, base64.StdEncoding.EncodeToString([]byte("someone:"+word))))
		if err := os.WriteFile(filepath.Join(s.dir, "config.json"), login, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, reference, credentialsDir string
			stdout, stderr                  string // expected texts
			code                            int
		}{
			{name: "open", reference: open + "/some/thing:1", stdout: kind + " has " + open + "/some/thing:1, 0 MB, sha256:", stderr: "ull"},
			{name: "again", reference: open + "/some/thing:1", stdout: kind + " has " + open + "/some/thing:1"},
			{name: "missing", reference: open + "/some/none:1", stderr: "manifest unknown", code: 1},
			{name: "stranger", reference: closed + "/some/thing:1", stderr: "hint: " + kind + " login " + closed, code: 1},
			{name: "known", reference: closed + "/some/thing:1", credentialsDir: s.dir, stdout: kind + " has " + closed + "/some/thing:1"},
		} {
			cmd := s.newCommand(t.Context(), "image", "pull", "--backend", kind, c.reference)
			cmd.Env = append(cmd.Env, "HOME="+s.dir, "DOCKER_CONFIG="+filepath.Join(s.dir, "none"),
				"REGISTRY_AUTH_FILE="+filepath.Join(s.dir, "none.json"))
			if c.credentialsDir != "" {
				cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+c.credentialsDir, "REGISTRY_AUTH_FILE="+filepath.Join(c.credentialsDir, "config.json"))
			}
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			cmd.Run()
			if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(stdout.String(), c.stdout) ||
				!strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("%s: exit code %d, stdout %q, stderr %q; want %d, %q, %q", c.name, cmd.ProcessState.ExitCode(), &stdout, &stderr, c.code,
					c.stdout, c.stderr)
			}
		}
	})
}

// imageRegistry serves one image, some/thing, to everyone or to one user, at an address that an engine trusts: Docker
// needs no certificate for loopback addresses, and Podman gets one in its home.
func imageRegistry(t *testing.T, engineURL, only string) (host string) {
	blobs := map[string][]byte{}
	add := func(kind string, data []byte) map[string]any {
		name := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		blobs[name] = data
		return map[string]any{"mediaType": kind, "digest": name, "size": len(data)}
	}
	encode := func(v any) []byte { data, _ := json.Marshal(v); return data }
	layer := make([]byte, 1024) // an empty archive
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	w.Write(layer)
	w.Close()
	const manifestKind = "application/vnd.oci.image.manifest.v1+json"
	manifest := encode(map[string]any{"schemaVersion": 2, "mediaType": manifestKind,
		"config": add("application/vnd.oci.image.config.v1+json", encode(map[string]any{"architecture": runtime.GOARCH, "os": "linux",
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}}})),
		"layers": []any{add("application/vnd.oci.image.layer.v1.tar+gzip", zipped.Bytes())}})
	add(manifestKind, manifest)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dir, name := filepath.Split(r.URL.Path)
		user, _, _ := r.BasicAuth()
		refuse := func(status int, code string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, strings.ToLower(strings.ReplaceAll(code, "_", " ")))
		}
		switch {
		case user != only:
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			refuse(http.StatusUnauthorized, "UNAUTHORIZED")
		case dir == "/v2/some/thing/manifests/":
			w.Header().Set("Content-Type", manifestKind)
			w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(manifest)))
			w.Write(manifest)
		case blobs[name] != nil:
			w.Write(blobs[name])
		case r.URL.Path == "/v2/":
		default:
			refuse(http.StatusNotFound, "MANIFEST_UNKNOWN")
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	if !strings.HasSuffix(engineURL, "/podman.sock") {
		s.Start()
		return s.Listener.Addr().String()
	}
	s.StartTLS()
	host = s.Listener.Addr().String()
	dir := filepath.Join(filepath.Dir(strings.TrimPrefix(engineURL, "unix://")), "home/.config/containers/certs.d", host)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o644); err != nil {
		t.Fatal(err)
	}
	return host
}
