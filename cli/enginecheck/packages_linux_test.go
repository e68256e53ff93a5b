package enginecheck_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
)

// recorded is an egress configuration that records decisions, without which nothing is reachable.
var recorded = egress.Config{Decided: func(context.Context, egress.Decision) error { return nil }}

// serveRegistry serves an index for Python and Node on this machine's loopback, with TLS and one package, tone, and
// configures the host's package managers with it.
func serveRegistry(t *testing.T) {
	wheel, tarball := toneWheel(t), toneTarball(t)
	sum := sha512.Sum512(tarball)
	mux := http.NewServeMux()
	mux.HandleFunc("/simple/tone/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `<a href="/files/tone-1.0-py3-none-any.whl">tone-1.0-py3-none-any.whl</a>`)
	})
	mux.HandleFunc("/files/tone-1.0-py3-none-any.whl", func(w http.ResponseWriter, r *http.Request) { w.Write(wheel) })
	mux.HandleFunc("/npm/tone", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"name": "tone", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{
			"1.0.0": map[string]any{"name": "tone", "version": "1.0.0", "dist": map[string]string{
				"tarball": "https://" + r.Host + "/npm/tone.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}}})
	})
	mux.HandleFunc("/npm/tone.tgz", func(w http.ResponseWriter, r *http.Request) { w.Write(tarball) })
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"PIP_CONFIG_FILE": os.DevNull, "PIP_INDEX_URL": s.URL + "/simple", "PIP_RETRIES": "0", "PIP_CERT": ca, "npm_config_cafile": ca,
		"npm_config_userconfig": filepath.Join(t.TempDir(), "npmrc"), "npm_config_globalconfig": os.DevNull, "npm_config_registry": s.URL +
			"/npm/",
		"HTTP_PROXY": "", "HTTPS_PROXY": "", "http_proxy": "", "https_proxy": "", "NO_PROXY": "127.0.0.1",
	} {
		t.Setenv(name, value)
	}
}

func toneWheel(t *testing.T) []byte {
	t.Helper()
	const info = "tone-1.0.dist-info/"
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	for _, f := range [][2]string{
		{"tone.py", "name = 'friend'\n"}, {info + "METADATA", "Metadata-Version: 2.1\nName: tone\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "tone.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		w, err := z.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, f[1])
	}
	z.Close()
	return wheel.Bytes()
}

func toneTarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range map[string]string{"package/package.json": `{"name":"tone","version":"1.0.0"}`,
		"package/index.js": "module.exports = 'friend'"} {
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		io.WriteString(w, text)
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

// withPip builds an image with pip in an engine and returns its reference.
func withPip(t *testing.T, engine container.Engine, base string) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import pip; print(pip.__path__[0])").Output()
	if err != nil {
		hosttest.SkipMissing(t, "pip", "this machine's Python has none: "+err.Error())
	}
	dir := strings.TrimSpace(string(out))
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	put := func(name string, content []byte) {
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
		w.Write(content)
	}
	put("Containerfile", []byte("FROM "+base+"\nCOPY pip /usr/lib/python3/dist-packages/pip\n"))
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, ".pyc") {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			name, _ := filepath.Rel(filepath.Dir(dir), path)
			put(name, content)
		}
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	const reference = "localhost/sandboxmcp-test:with-pip"
	var lines []string
	if err := engine.Build(t.Context(), reference, &archive, nil, func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatalf("build an image with pip: %v: %q", err, lines)
	}
	return reference
}

// TestPackagesInContainers installs with the package managers of an image, through the host's configuration, and
// imports the package in another container.
func TestPackagesInContainers(t *testing.T) {
	eachEngine(t, func(t *testing.T, kind string) {
		if !hasEngine(t, kind) {
			t.SkipNow()
		}
		serveRegistry(t)
		url := engineURLs()[kind](t)
		engine := engineOf(t, kind, url)
		with := testImages(t, url)
		with["python"] = withPip(t, engine, with["python"])
		backend := engineBackend(t, engine, with)
		store, err := packages.Open(packages.Config{Dir: filepath.Join(t.TempDir(), "packages")})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for language, code := range map[string]string{"python": "import tone; print(tone.name, tone.__file__)",
			"node": "console.log(require('tone'), require.resolve('tone'))"} {
			r, err := store.Install(t.Context(), packages.Order{ID: rand.Text(), Namespace: "default", Language: language,
				Packages: []string{"tone"}, Egress: recorded, Backend: backend, Require: backends.EngineLayers})
			if err != nil || r.ExitCode != 0 || len(r.Packages) != 1 || r.Packages[0].Hash == "" || len(r.Hosts) != 1 || !r.Hosts[0].Allowed {
				t.Fatalf("%s: %+v, %v", language, r, err)
			}
			v, err := store.View(t.Context(), backend, "default", "", language)
			if err != nil || v.Layer != r.Layer {
				t.Fatalf("%s: %+v, %v", language, v, err)
			}
			defer v.Release()
			want := map[string]string{"python": "friend /packages/tone.py", "node": "friend /node_modules/tone/index.js"}[language]
			if got := runWithView(t, backend, language, v, code); got != want {
				t.Errorf("%s: got %q", language, got)
			}
		}
		// The interpreters are the same, yet programs on this host must not see packages that an image's pip installed.
		if v, err := store.View(t.Context(), backendOf(t, "process", 0), "default", "", "python"); err != nil || len(v.Mounts) > 0 {
			t.Errorf("the host is shown %+v, %v", v, err)
		}
		_, err = store.Install(t.Context(), packages.Order{ID: rand.Text(), Namespace: "default", Language: "python", Packages: []string{"tone"},
			Egress: recorded, Backend: engineBackend(t, engineOf(t, kind, url), testImages(t, url))})
		if !errors.As(err, new(*backends.Refusal)) || !strings.Contains(err.Error(), "lacks pip") {
			t.Errorf("an image without pip: %v", err)
		}
	})
}

// runWithView returns the output of a program in a sandbox with a view of packages.
func runWithView(t *testing.T, b backends.Backend, language string, v packages.View, code string) string {
	t.Helper()
	s, err := b.Start(t.Context(), backends.Spec{ID: rand.Text(), Language: language, Mounts: v.Mounts})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	flag := map[string]string{"python": "-c", "node": "-e"}[language]
	if _, err := s.Exec(t.Context(), backends.Command{Args: []string{language, flag, code}, Env: v.Env},
		backends.Streams{Stdout: &out, Stderr: &out}); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}
