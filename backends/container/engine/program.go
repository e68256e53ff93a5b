package engine

import (
	"os/exec"
	"path/filepath"
)

// Program finds a program on a PATH that need not be ours; a name with folders is where it says. The error is an
// [exec.ErrNotFound].
func Program(path, name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // whatever lies in the current folder is nobody's choice
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}
