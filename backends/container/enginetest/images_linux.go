package enginetest

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"
)

// Names of the test images, for Image.
const (
	// Plain has bash, Python and Node, and an ordinary configuration.
	Plain = "plain"
	// Hostile is Plain with a configuration that interferes wherever it can. Its volume /image/volume has a program
	// that must not be visible at run time.
	Hostile = "hostile"
	// Setuid has bash, and programs that are set-user-ID root or have capabilities.
	Setuid = "setuid"
	// Links has bash, and links in place of sandboxes' directories and files.
	Links = "links"
	// Full has bash, and 1,000 files in /workspace.
	Full = "full"
	// Bare has only Python and its libraries: no /etc, no /tmp, no shell.
	Bare = "bare"
	// Own has this test binary as a pod's init.
	Own = "own"
)

// imageSpec is the content of an image.
type imageSpec struct {
	layers []string
	config map[string]any // in the format of the image specification
}

func imageSpecs() map[string]imageSpec {
	return map[string]imageSpec{
		Plain: {[]string{"system", "python", "node"}, map[string]any{"Cmd": []string{"bash"},
			"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}},
		Hostile: {[]string{"system", "python", "node", "volume"}, hostileConfig()},
		Setuid:  {[]string{"system", "setuid"}, nil},
		Links:   {[]string{"system", "links"}, nil},
		Full:    {[]string{"system", "full"}, nil},
		Bare:    {[]string{"bare"}, nil},
		Own:     {[]string{"own"}, nil},
	}
}

// Images loads the hostile image into a test engine and returns references to it for all languages: its
// configuration must have no effect.
func Images(t testing.TB, engineURL string) map[string]string {
	t.Helper()
	reference := Image(t, engineURL, Hostile)
	return map[string]string{"python": reference, "node": reference, "shell": reference}
}

// Image loads an image into a test engine and returns its reference.
func Image(t testing.TB, engineURL, name string) string {
	t.Helper()
	e := engineAt(t, engineURL)
	mine.mu.Lock()
	defer mine.mu.Unlock()
	reference := "localhost/sandboxmcp-test:" + name
	if e.images[name] {
		return reference
	}
	begun := time.Now()
	from, to := io.Pipe()
	go func() { to.CloseWithError(saveLocked(to, reference, name, e.dir)) }()
	if err := load(engineURL, from); err != nil {
		t.Fatalf("image %s: %v", name, err)
	}
	from.Close()
	t.Logf("image %s in %v", name, time.Since(begun).Round(time.Millisecond))
	e.images[name] = true
	return reference
}

// Save writes an image in the format of `docker save`, for a cluster's nodes. dir is the directory of its layers.
func Save(to io.Writer, reference, name, dir string) error {
	mine.mu.Lock()
	defer mine.mu.Unlock()
	return saveLocked(to, reference, name, dir)
}

// saveLocked is Save with mine locked.
func saveLocked(to io.Writer, reference, name, dir string) error {
	spec, ok := imageSpecs()[name]
	if !ok {
		return fmt.Errorf("no image is called %q", name)
	}
	var layers []layer
	for _, name := range spec.layers {
		l, err := cachedLayer(dir, name)
		if err != nil {
			return err
		}
		layers = append(layers, l)
	}
	return writeArchive(to, reference, layers, spec.config)
}

// cachedLayer builds a layer at its first use, in an engine's directory, which the supervisor removes. The caller
// holds mine's lock.
func cachedLayer(dir, name string) (layer, error) {
	if l, ok := mine.layers[name]; ok {
		return l, nil
	}
	if mine.layers == nil {
		mine.layers = map[string]layer{}
	}
	seen := map[string]bool{}
	if fill := separateLayers()[name]; fill != nil {
		l, err := makeLayer(dir, name, seen, fill)
		mine.layers[name] = l
		return l, err
	}
	// The layers of the main image are built together, so that each library is in only one of them.
	for _, part := range []struct {
		name string
		fill func(*layerWriter)
	}{{"system", addSystem}, {"python", addPython}, {"node", addNode}} {
		l, err := makeLayer(dir, part.name, seen, part.fill)
		if err != nil {
			return layer{}, err
		}
		mine.layers[part.name] = l
	}
	return mine.layers[name], nil
}

// writeArchive writes an image in the format of `docker save`.
func writeArchive(to io.Writer, reference string, layers []layer, config map[string]any) error {
	var sums, files []string
	for _, l := range layers {
		sums = append(sums, "sha256:"+l.sum)
		files = append(files, l.sum+".tar")
	}
	if config == nil {
		config = map[string]any{}
	}
	description, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "2024-01-01T00:00:00Z", "config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": sums},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(description)
	name := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{"Config": name, "RepoTags": []string{reference}, "Layers": files}})
	if err != nil {
		return err
	}
	l := &layerWriter{w: tar.NewWriter(to)}
	l.writeText(name, 0o644, string(description))
	l.writeText("manifest.json", 0o644, string(manifest))
	for i, from := range layers {
		f, err := os.Open(from.file)
		if err != nil {
			return err
		}
		l.writeEntry(&tar.Header{Typeflag: tar.TypeReg, Name: files[i], Mode: 0o644, Size: from.size}, f)
		f.Close()
	}
	if l.err != nil {
		return fmt.Errorf("write image: %w", l.err)
	}
	return l.w.Close()
}
