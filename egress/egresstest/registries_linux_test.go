package egresstest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"path/filepath"
	"testing"
)

// pypi serves an index with one package, tone.
func pypi(t *testing.T) http.Handler {
	const info = "tone-1.0.dist-info/"
	files := [][2]string{
		{"tone.py", "name = 'friend'\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: tone\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", "tone.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	}
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	for _, f := range files {
		w, err := z.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(f[1]))
	}
	z.Close()
	const file = "tone-1.0-py3-none-any.whl"
	mux := http.NewServeMux()
	mux.HandleFunc("/simple/tone/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><a href="/files/%s#sha256=%x">%[1]s</a>`, file, sha256.Sum256(wheel.Bytes()))
	})
	mux.HandleFunc("/files/"+file, func(w http.ResponseWriter, r *http.Request) { w.Write(wheel.Bytes()) })
	return mux
}

// npm serves a registry with one package, tone.
func npm(t *testing.T) http.Handler {
	var tgz bytes.Buffer
	gz := gzip.NewWriter(&tgz)
	w := tar.NewWriter(gz)
	for _, f := range [][2]string{
		{"package/package.json", `{"name":"tone","version":"1.0.0","main":"index.js"}`},
		{"package/index.js", "module.exports = 'friend'\n"},
	} {
		w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))})
		w.Write([]byte(f[1]))
	}
	w.Close()
	gz.Close()
	sum := sha512.Sum512(tgz.Bytes())
	mux := http.NewServeMux()
	mux.HandleFunc("/tone", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{
			"name": "tone", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": "tone", "version": "1.0.0", "main": "index.js",
				"dist": map[string]any{"tarball": "https://" + r.Host + "/tone.tgz",
					"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])},
			}},
		})
	})
	mux.HandleFunc("/tone.tgz", func(w http.ResponseWriter, r *http.Request) { w.Write(tgz.Bytes()) })
	return mux
}

// gitSite serves a repository with one file, like git's own server.
func gitSite(t *testing.T, dir string) http.Handler {
	t.Helper()
	work, root := filepath.Join(dir, "work"), filepath.Join(dir, "repositories")
	git := func(args ...string) { command(t, "git", append([]string{"-C", work}, args...)...) }
	for _, d := range []string{work, root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "README"), []byte("cloned\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	git("add", "README")
	git("-c", "user.name=test", "-c", "user.email=test@example.test", "commit", "-q", "-m", "first")
	git("clone", "-q", "--bare", work, filepath.Join(root, "repo.git"))
	return &cgi.Handler{Path: "/usr/lib/git-core/git-http-backend", Root: "/", Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + dir, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
		"GIT_CONFIG_VALUE_0=*"}}
}
