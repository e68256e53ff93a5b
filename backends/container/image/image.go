// Package image has the images that this project offers for containers: each language's own with the
// libraries that agents use, to be built by an engine where it is to run.
//
// Nothing in an image is trusted: its user, entrypoint, variables and volumes have no effect on a sandbox,
// and what an image has to do so that its libraries are found, it does with files alone.
package image

import (
	"archive/tar"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"time"
)

//go:embed python node shell r
var containerfiles embed.FS

// Name is what an engine calls the image of a language. Podman says of images that come from no registry
// that they come from localhost, and would ask registries for one of another name.
func Name(engine, language string) string {
	name := "sandboxmcp/" + language + ":latest"
	if engine == "podman" {
		return "localhost/" + name
	}
	return name
}

// Archive returns what an engine builds the image of one of [backends.Languages] from: a tar archive with a Containerfile and
// what that copies. It is the same, byte for byte, each time, so that engines find their caches.
func Archive(language string) ([]byte, error) {
	dir, err := fs.Sub(containerfiles, language)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		header := tar.Header{Name: path.Clean(name), Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the image of %q: %w", language, err)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
