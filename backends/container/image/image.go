// Package image has this project's own images for containers: one for each language, with the libraries that agents
// use, built by an engine where they are to run.
//
// Nothing in an image is trusted: its user, entrypoint, variables and volumes have no effect on a sandbox, and its
// libraries are found by files alone.
package image

import (
	"archive/tar"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
)

//go:embed python node shell r
var containerfiles embed.FS

// Name is an engine's name for the image of a language. Podman prefixes images that come from no registry with
// localhost, and would ask registries for any other name.
func Name(engine, language string) string {
	name := "sandboxmcp/" + language + ":latest"
	if engine == "podman" {
		return "localhost/" + name
	}
	return name
}

// Archive returns the build context of the image of one of [backends.Languages]: a tar archive with a Containerfile and
// the files that it copies. It is the same, byte for byte, each time, so that engines find their caches.
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
		return writeFile(w, path.Clean(name), 0o644, content)
	})
	if err != nil {
		return nil, fmt.Errorf("the image of %q: %w", language, err)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
