package process

import (
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// trust writes the host's trusted certificates and more to a file, and mounts that over the system's bundles, for programs
// that read no variable.
func (r *root) trust(more []byte) {
	if len(more) == 0 {
		return
	}
	r.mkdir(path.Dir(backends.TrustFile))
	r.write(newRoot+backends.TrustFile, string(backends.Trusted(more)), unix.O_CREAT, 0o644)
	for _, at := range visibleBundles() {
		r.do("mount "+at, unix.SYS_MOUNT, r.str(newRoot+backends.TrustFile), r.str(newRoot+at), val(0), val(unix.MS_BIND), val(0))
		r.attr(newRoot+at, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
}

// visibleBundles returns the bundles in the part of the host that a sandbox sees, with links followed: PID 1 still has the
// host's root, where a link would lead elsewhere.
func visibleBundles() (visible []string) {
	for _, bundle := range backends.Bundles {
		real, err := filepath.EvalSymlinks(bundle)
		if err == nil && !slices.Contains(visible, real) && isVisible(real) {
			visible = append(visible, real)
		}
	}
	return visible
}

// isVisible reports whether a file of the host lies in a path that all sandboxes show.
func isVisible(file string) bool {
	if slices.ContainsFunc(backends.SystemDirs, func(dir string) bool { return paths.Below(file, dir) }) {
		return true
	}
	return slices.ContainsFunc(etcNames(), func(name string) bool {
		at := "/etc/" + name
		info, err := os.Lstat(at)
		return err == nil && (at == file || info.IsDir() && paths.Within(file, at))
	})
}
