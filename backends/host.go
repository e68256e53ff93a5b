package backends

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// ResolveMounts returns spec with the host's links in its mounts and workspace resolved, so that the checked path
// is the mounted path. It refuses paths that can't be mounted, and paths that would give access to more than files:
// the whole host, its devices and kernel, and the control sockets of container engines. engines are addresses of
// engines in addition to the usual ones.
func ResolveMounts(spec Spec, engines ...string) (Spec, error) {
	if len(spec.Mounts) == 0 && spec.Workspace.Host == "" {
		return spec, nil
	}
	sockets := engineSockets(engines)
	var err error
	spec.Mounts = slices.Clone(spec.Mounts)
	for i := range spec.Mounts {
		if spec.Mounts[i].Host, err = resolveMount(spec.Mounts[i].Host, sockets); err != nil {
			return spec, err
		}
	}
	if asked := spec.Workspace.Host; asked != "" {
		if spec.Workspace.Host, err = resolveMount(asked, sockets); err != nil {
			return spec, err
		}
		if info, err := os.Stat(spec.Workspace.Host); err != nil || !info.IsDir() {
			return spec, RefuseMount(asked, "is not a directory")
		}
		if below := Submounts(spec.Workspace.Host); spec.Workspace.Propose && len(below) > 0 {
			return spec, RefuseMount(asked, "has other file systems mounted in it ("+below[0].Path+"), which can't have proposed changes")
		}
	}
	return spec, checkSystem(append(slices.Clone(spec.Mounts), spec.Workspace))
}

// checkSystem refuses writable mounts by root of directories of the operating system, by whatever name: links in
// them are trusted, see [hostfs.SystemDirs]. It also refuses proposing changes of one, since the program would read
// everything that its owner root may.
func checkSystem(mounts []Mount) error {
	mounts = slices.DeleteFunc(mounts, func(m Mount) bool { return !m.Write && !m.Propose })
	if len(mounts) == 0 || os.Geteuid() != 0 {
		return nil
	}
	system := LocateHidden(hostfs.SystemDirs)
	for _, m := range mounts {
		if dir := system.FirstWithin(m.Host); dir != "" {
			why := ", and would be writable"
			if m.Propose {
				why = ", whose files the program would read as their owner"
			}
			return RefuseMount(m.Host, "is, or holds, "+dir+", a directory of the operating system"+why)
		}
	}
	return nil
}

// resolveMount returns the real path of one mount source.
func resolveMount(host string, sockets []string) (string, error) {
	if !filepath.IsAbs(host) || filepath.Clean(host) != host || strings.ContainsRune(host, 0) {
		return "", RefuseMount(host, "is not an absolute, clean path")
	}
	real := ""
	_, err := os.Stat(host) // its error contains the complete path
	if err == nil {
		real, err = filepath.EvalSymlinks(host)
	}
	if err != nil {
		return "", RefuseMount(host, "can't be shown: "+err.Error())
	}
	if real == filepath.VolumeName(real)+string(filepath.Separator) || paths.Within(real, "/proc") {
		return "", RefuseMount(host, "would show the whole host")
	}
	for _, dir := range []string{"/dev", "/sys"} {
		if paths.Within(real, dir) {
			return "", RefuseMount(host, "would show the host's devices")
		}
	}
	if kind := kernelKind(real); kind != "" {
		return "", RefuseMount(host, "would show the host's kernel: its file system is of the kind "+kind)
	}
	for _, s := range sockets {
		if paths.Within(s, real) {
			return "", RefuseMount(host, "would show "+s+", the control socket of a container engine")
		}
	}
	if err := checkReadable(real); err != nil {
		return "", RefuseMount(host, "can't be shown: "+err.Error())
	}
	return real, nil
}

// checkReadable returns the reason why a directory can't be listed or entered. It does not check files: the program
// opens them itself.
func checkReadable(name string) error {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	f.Close()
	_, err = os.Stat(name + string(filepath.Separator) + ".")
	return err
}

// engineSockets returns the paths of container engines' sockets, with links resolved, whose directory exists. It
// ignores other kinds of addresses.
func engineSockets(more []string) []string {
	list := append(EngineSockets(os.Getenv, os.Getuid()), os.Getenv("DOCKER_HOST"), os.Getenv("CONTAINER_HOST"))
	var found []string
	for _, s := range append(list, more...) {
		s = strings.TrimPrefix(s, "unix://")
		if !filepath.IsAbs(s) {
			continue
		}
		if real, err := filepath.EvalSymlinks(s); err == nil {
			found = append(found, real)
		} else if dir, err := filepath.EvalSymlinks(filepath.Dir(s)); err == nil {
			found = append(found, filepath.Join(dir, filepath.Base(s)))
		}
	}
	return found
}
