// Package image has this project's own container images: one per language, with the libraries that agents use,
// built by the engine that runs them.
//
// An image is not trusted: its user, entrypoint, variables and volumes have no effect on a sandbox, and its
// libraries are found only by their paths.
package image

import (
	"archive/tar"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed python node shell r
var containerfiles embed.FS

// Name returns an engine's name for the image of a language. Podman gives images without a registry the prefix
// localhost, and would ask registries for any other name.
func Name(engine, language string) string {
	name := "sandboxmcp/" + language + ":latest"
	if engine == "podman" {
		return "localhost/" + name
	}
	return name
}

// Archive returns the build context of the image of one of [backends.Languages]: a tar archive with a Containerfile
// and the files that it copies. It is reproducible, so that engines can use their caches.
func Archive(language string) ([]byte, error) {
	dir, err := fs.Sub(containerfiles, language)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.AddFS(dir), w.Close()); err != nil {
		return nil, fmt.Errorf("the image of %q: %w", language, err)
	}
	return b.Bytes(), nil
}
