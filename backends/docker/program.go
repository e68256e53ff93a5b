package docker

import (
	"os/exec"
	"path/filepath"
)

// program finds a program on the PATH of an environment, which need not be ours.
func program(environ []string, name string) (string, error) {
	for _, folder := range filepath.SplitList(variable(environ, "PATH")) {
		if !filepath.IsAbs(folder) {
			continue // whatever lies in the current folder is nobody's choice
		}
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}
