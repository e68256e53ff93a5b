// Package engine is what the clients of engines have in common.
//
// Library: distribution/reference takes the names of images apart as engines do.
package engine

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
)

// Pause waits, and reports whether the context still stands.
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

// Digest chooses the digest (repository@sha256:...) that the registry of ref has for an image: the same content may
// have come from several. It is "" if no registry can know it: Podman gives one to what was made here, too, under the
// name localhost.
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

// maxProcesses is how many a container's user may have (RLIMIT_NPROC), in all containers: the limit that counts is
// that of the container's cgroup. It is below the kernel's usual pid_max, to which Podman's service lowers its own.
const maxProcesses = 1 << 14
