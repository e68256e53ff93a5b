package packages

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// registry serves a wheel index and a npm registry on one port, and their files on another one,
// under another name, which the operator names as a further registry.
type registry struct {
	index, files *httptest.Server
	mu           sync.Mutex
	wheels       map[string][]byte            // by file name
	sums         map[string]string            // what the index says, where that is not the truth
	npm          map[string]map[string][]byte // tarballs by package and version
	manifests    map[string]map[string]any    // by "name@version"
	asked        []string                     // "METHOD host/path"
	wait         map[string]bool              // files that never come
	json         bool                         // PEP 691 instead of PEP 503
	meta         map[string]string            // PEP 658: metadata of wheels by file name; nil serves none
	password     string
	filesAt      string // the address of files, as the index says it; "" is the real one, by name
}

func newRegistry(t testing.TB) *registry {
	r := &registry{wheels: map[string][]byte{}, sums: map[string]string{}, npm: map[string]map[string][]byte{},
		manifests: map[string]map[string]any{}, wait: map[string]bool{}, meta: map[string]string{}}
	r.files = httptest.NewServer(http.HandlerFunc(r.serveFile))
	r.index = httptest.NewServer(http.HandlerFunc(r.serveIndex))
	t.Cleanup(func() {
		for _, s := range []*httptest.Server{r.index, r.files} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	return r
}

// configure is how the operator names the registry: by the environment alone.
func (r *registry) configure(t testing.TB) {
	clearConfig(t)
	t.Setenv("PIP_INDEX_URL", r.index.URL+"/simple")
	t.Setenv("npm_config_registry", r.index.URL+"/npm/")
	r.nameFiles(t)
}

// nameFiles names the host of the registry's files.
func (r *registry) nameFiles(t testing.TB) {
	t.Setenv("PIP_EXTRA_INDEX_URL", r.fileURL("/"))
	t.Setenv("npm_config_@files:registry", r.fileURL("/"))
}

// clearConfig leaves nothing of this machine's own configuration of pip and npm.
func clearConfig(t testing.TB) {
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		upper := strings.ToUpper(name)
		if strings.HasPrefix(upper, "PIP_") || strings.HasPrefix(upper, "NPM_CONFIG_") || strings.HasSuffix(upper, "_PROXY") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("PIP_CONFIG_FILE", "/dev/null")
	t.Setenv("npm_config_userconfig", filepath.Join(t.TempDir(), "npmrc"))
	t.Setenv("npm_config_globalconfig", filepath.Join(t.TempDir(), "npmrc"))
}

func (r *registry) fileURL(name string) string {
	if r.filesAt != "" {
		return r.filesAt + name
	}
	return strings.Replace(r.files.URL, "127.0.0.1", "localhost", 1) + name
}

// log notes a request; r.mu is held.
func (r *registry) log(q *http.Request) {
	r.asked = append(r.asked, q.Method+" "+q.Host+q.URL.Path)
}

func (r *registry) serveIndex(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log(q)
	if _, password, _ := q.BasicAuth(); r.password != "" && password != r.password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if name, ok := strings.CutPrefix(q.URL.Path, "/npm/"); ok {
		r.servePackument(w, name)
		return
	}
	name, ok := strings.CutPrefix(q.URL.Path, "/simple/")
	if !ok {
		http.NotFound(w, q)
		return
	}
	var files []map[string]any
	for _, file := range slices.Sorted(maps.Keys(r.wheels)) {
		project, _, _ := strings.Cut(file, "-")
		if strings.ToLower(strings.ReplaceAll(project, "_", "-")) != strings.Trim(name, "/") {
			continue
		}
		sum := r.sums[file]
		if sum == "" {
			sum = sha(r.wheels[file])
		}
		one := map[string]any{"filename": file, "url": r.fileURL("/wheels/" + file), "hashes": map[string]string{"sha256": sum}}
		if meta := r.meta[file]; meta != "" {
			one["core-metadata"] = map[string]string{"sha256": sha([]byte(meta))} // and not by its first name, of which old pips know half
		}
		files = append(files, one)
	}
	switch {
	case files == nil:
		http.NotFound(w, q)
	case r.json:
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		json.NewEncoder(w).Encode(map[string]any{"meta": map[string]string{"api-version": "1.0"}, "name": name, "files": files})
	default:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!DOCTYPE html><html><body>")
		for _, f := range files {
			attributes := ""
			if meta, is := f["core-metadata"].(map[string]string); is {
				attributes = fmt.Sprintf(` data-core-metadata="sha256=%s"`, meta["sha256"])
			}
			fmt.Fprintf(w, "<a href=\"%s#sha256=%s\"%s>%s</a><br>\n", f["url"], f["hashes"].(map[string]string)["sha256"], attributes, f["filename"])
		}
	}
}

func (r *registry) servePackument(w http.ResponseWriter, name string) {
	versions, latest := map[string]any{}, ""
	for _, version := range slices.Sorted(maps.Keys(r.npm[name])) {
		manifest := maps.Clone(r.manifests[name+"@"+version])
		integrity := r.sums[name+"@"+version]
		if integrity == "" {
			sum := sha512.Sum512(r.npm[name][version])
			integrity = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
		}
		manifest["dist"] = map[string]string{"tarball": r.fileURL("/npm/" + name + "/-/" + version + ".tgz"), "integrity": integrity}
		versions[version], latest = manifest, version
	}
	if latest == "" {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"not found"}`)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]string{"latest": latest}, "versions": versions})
}

func (r *registry) serveFile(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.log(q)
	wait := r.wait[q.URL.Path]
	name, wheel := strings.CutPrefix(q.URL.Path, "/wheels/")
	content := r.wheels[name]
	if of, is := strings.CutSuffix(name, ".metadata"); is && r.meta[of] != "" {
		content = []byte(r.meta[of])
	}
	if !wheel {
		name, version, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(q.URL.Path, "/npm/"), ".tgz"), "/-/")
		content = r.npm[name][version]
	}
	r.mu.Unlock()
	if wait {
		w.Write(content[:len(content)/2])
		w.(http.Flusher).Flush()
		<-q.Context().Done()
		return
	}
	if content == nil {
		http.NotFound(w, q)
		return
	}
	w.Write(content)
}

// block has the file of a wheel never come, but for its first half.
func (r *registry) block(wheel string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wait["/wheels/"+wheel] = true
}

// requests returns all requests so far.
func (r *registry) requests() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.asked, "\n")
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// wheel adds a wheel of these files and requirements to the index.
func (r *registry) wheel(name, version string, files map[string]string, needs ...string) string {
	module := strings.ReplaceAll(name, "-", "_")
	info := module + "-" + version + ".dist-info/"
	all := maps.Clone(files)
	meta := "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	for _, n := range needs {
		meta += "Requires-Dist: " + n + "\n"
	}
	all[info+"METADATA"] = meta
	all[info+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	var record strings.Builder
	for _, path := range slices.Sorted(maps.Keys(all)) {
		sum := sha256.Sum256([]byte(all[path]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(all[path]))
	}
	all[info+"RECORD"] = record.String() + info + "RECORD,,\n"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		f, _ := z.Create(path)
		f.Write([]byte(all[path]))
	}
	z.Close()
	file := module + "-" + version + "-py3-none-any.whl"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wheels[file] = b.Bytes()
	if r.meta != nil {
		r.meta[file] = meta
	}
	return file
}

// source adds a Python source package.
func (r *registry) source(name, version string, files map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wheels[name+"-"+version+".tar.gz"] = tarball(name+"-"+version, files)
}

// node adds a npm package.
func (r *registry) node(name, version string, files map[string]string, manifest map[string]any) {
	all := maps.Clone(files)
	m := map[string]any{"name": name, "version": version, "main": "index.js"}
	maps.Copy(m, manifest)
	b, _ := json.Marshal(m)
	all["package.json"] = string(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.npm[name] == nil {
		r.npm[name] = map[string][]byte{}
	}
	r.npm[name][version] = tarball("package", all)
	r.manifests[name+"@"+version] = m
}

func tarball(top string, files map[string]string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		w.WriteHeader(&tar.Header{Name: top + "/" + path, Mode: 0o644, Size: int64(len(files[path]))})
		w.Write([]byte(files[path]))
	}
	w.Close()
	z.Close()
	return b.Bytes()
}
