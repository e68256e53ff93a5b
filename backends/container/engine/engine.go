// Package engine has the parts that the clients of Docker and Podman share.
//
// Library: distribution/reference parses the names of images as engines do.
package engine

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
)

// Pause waits for d, and reports whether ctx has not ended meanwhile.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Digest chooses an image's digest (repository@sha256:...) at the registry of ref: the same content may have come from
// several. It is "" if no registry can know it: Podman gives local images one, too, under the name localhost.
func Digest(ref string, digests []string) string {
	asked, _ := reference.ParseNormalizedNamed(ref) // may be an id
	first := ""
	for _, d := range digests {
		n, err := reference.ParseNormalizedNamed(d)
		if err != nil || reference.Domain(n) == "localhost" {
			continue
		}
		if asked != nil && n.Name() == asked.Name() {
			return d
		}
		if first == "" {
			first = d
		}
	}
	return first
}

// Program finds a program on a PATH that need not be ours; a name with directories is taken as a path. The error is an
// [exec.ErrNotFound].
func Program(path, name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // programs in the current directory are nobody's choice
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// maxProcesses is how many a container's user may have (RLIMIT_NPROC), in all containers: the limit that counts is
// that of the container's cgroup. It is below the kernel's usual pid_max, to which Podman's service lowers its own.
const maxProcesses = 1 << 14
