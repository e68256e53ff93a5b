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

// trust puts more beside what the host trusts, into a file of our own, and shows that in the place of the
// system's bundles, for programs that heed no variable.
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

// visibleBundles are the bundles in what a sandbox sees of the host, with links followed: PID 1 still has the
// host's root, where they would lead elsewhere.
func visibleBundles() (visible []string) {
	for _, bundle := range backends.Bundles {
		real, err := filepath.EvalSymlinks(bundle)
		if err == nil && !slices.Contains(visible, real) && isVisible(real) {
			visible = append(visible, real)
		}
	}
	return visible
}

// isVisible says whether a file of the host lies in what all sandboxes see of it.
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
