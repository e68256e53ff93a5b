package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// contents returns the headers and the contents of an archive, in order.
func contents(t *testing.T, archive []byte) (headers []*tar.Header, all map[string][]byte) {
	t.Helper()
	all = map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return headers, all
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func testServer(t *testing.T) Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("the program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Server{Binary: file, Arch: "arm64", Certificates: []byte("certificates\n")}
}

// TestServer checks that the image has only the program, certificates and users: no shell, no link out, nothing
// that its user could change except its state.
func TestServer(t *testing.T) {
	s := testServer(t)
	var saved, again bytes.Buffer
	if err := errors.Join(s.Save(&saved, "x/y:1"), s.Save(&again, "x/y:1")); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saved.Bytes(), again.Bytes()) {
		t.Error("the image is another one each time")
	}
	_, files := contents(t, saved.Bytes())
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	layer := files[manifest[0].Layers[0]]
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
		Rootfs struct {
			Diffs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/sandboxmcp"}) {
		t.Errorf("got %+v", config)
	}
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); !slices.Equal(config.Rootfs.Diffs, []string{want}) {
		t.Errorf("digests %v, want %s", config.Rootfs.Diffs, want)
	}
	if !slices.Equal(manifest[0].RepoTags, []string{"x/y:1"}) {
		t.Errorf("tags %v", manifest[0].RepoTags)
	}
	checkLayer(t, layer)
}

func checkLayer(t *testing.T, layer []byte) {
	t.Helper()
	headers, inside := contents(t, layer)
	var names []string
	for _, h := range headers {
		names = append(names, h.Name)
		writable := h.Mode&0o022 != 0 && h.Name != "tmp/" || h.Uid == ServerUser && h.Name != "state/"
		if writable || h.Mode&0o6000 != 0 || h.Typeflag == tar.TypeSymlink {
			t.Errorf("%s has mode %o, user %d, type %c", h.Name, h.Mode, h.Uid, h.Typeflag)
		}
		if h.Typeflag == tar.TypeLink && h.Linkname != "sandboxmcp" {
			t.Errorf("%s is %s", h.Name, h.Linkname)
		}
	}
	want := []string{".sandboxmcp/", "etc/", "etc/ssl/", "etc/ssl/certs/", "state/", "tmp/", "etc/passwd", "etc/group",
		"etc/ssl/certs/ca-certificates.crt", "sandboxmcp", ".sandboxmcp/init"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if string(inside["sandboxmcp"]) != "the program" || string(inside["etc/ssl/certs/ca-certificates.crt"]) != "certificates\n" {
		t.Errorf("got %q", inside)
	}
}

// TestServerContext checks that the build context contains the same layer.
func TestServerContext(t *testing.T) {
	var b bytes.Buffer
	if err := testServer(t).WriteContext(&b); err != nil {
		t.Fatal(err)
	}
	_, files := contents(t, b.Bytes())
	checkLayer(t, files["layer.tar"])
	for _, line := range []string{"FROM scratch", "ADD layer.tar /", "USER 65532:65532", `ENTRYPOINT ["/sandboxmcp"]`} {
		if !slices.Contains(strings.Split(string(files["Containerfile"]), "\n"), line) {
			t.Errorf("no line %q in %s", line, files["Containerfile"])
		}
	}
	if err := (Server{Binary: "/nowhere"}).WriteContext(io.Discard); err == nil {
		t.Error("a program that is not there: no error")
	}
}
