package container

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// reserved are places inside that no mount may take or cover: the same as in a hardened process, and our own.
var reserved = append([]string{"/", "/proc", "/dev", "/sys", "/run", "/tmp", Workspace, Home}, systemFolders...)

// covered are folders in which there can be no mount either.
var covered = []string{"/proc", "/dev", "/sys", "/run", Home}

// systemFolders are the image's operating system.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"}

// mostMounts is as many as a hardened process can have.
const mostMounts = 24

// mounts checks the request's mounts and returns what the engine is to show, with all links on the host followed:
// what was looked at is what is shown.
func (b *Backend) mounts(s *standing, spec backends.Spec) ([]Bind, error) {
	if len(spec.Mounts) > mostMounts {
		return nil, &backends.Refusal{Reason: fmt.Sprintf("%d mounts are more than %d", len(spec.Mounts), mostMounts), Remedy: "mount a folder above them"}
	}
	all := spec.Mounts
	if spec.Workspace.Host != "" {
		all = append(slices.Clone(all), backends.Mount{Host: spec.Workspace.Host, Inside: Workspace, Write: spec.Workspace.Write})
	}
	if len(all) > 0 && !s.Local {
		return nil, &backends.Refusal{Reason: fmt.Sprintf("%s runs elsewhere (%s), and can't show folders of this machine", b.Name(), s.Address),
			Remedy: "send files along instead of mounting them, or use an engine of this machine"}
	}
	var binds []Bind
	for i, m := range all {
		if i < len(spec.Mounts) {
			if err := checkInside(m.Inside, spec); err != nil {
				return nil, err
			}
		}
		host, err := checkHost(m.Host, sockets(s.Address))
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(host); i == len(spec.Mounts) && (err != nil || !info.IsDir()) {
			return nil, refuseMount(m.Host, "is not a folder")
		}
		binds = append(binds, Bind{Host: host, Inside: m.Inside, Write: m.Write})
	}
	return binds, nil
}

// checkInside refuses places that can't be mounted at.
func checkInside(inside string, spec backends.Spec) error {
	below := func(dir string) bool { return under(inside, dir) }
	named := 0
	for _, m := range spec.Mounts {
		if m.Inside == inside {
			named++
		}
	}
	switch {
	case !path.IsAbs(inside) || path.Clean(inside) != inside || strings.ContainsRune(inside, 0):
		return refuseMount(inside, "is not an absolute, clean path")
	case slices.ContainsFunc(systemFolders, below):
		return refuseMount(inside, "lies in a folder of the system, which is read-only")
	case slices.Contains(reserved, inside), slices.ContainsFunc(covered, below):
		return refuseMount(inside, "is the sandbox's own")
	case spec.Workspace.Host != "" && below(Workspace):
		return refuseMount(inside, "lies in the host's workspace, where a folder would have to be made for it")
	case slices.ContainsFunc(spec.Mounts, func(o backends.Mount) bool { return under(inside, o.Inside) }):
		return refuseMount(inside, "lies in another mount, where what is on the host would decide where it leads")
	case named > 1:
		return refuseMount(inside, "is named twice")
	}
	return nil
}

// checkHost refuses what would show more than files: the whole host, its devices and kernel, and sockets by
// which an engine is told to do anything. It returns the path with all links followed.
func checkHost(host string, sockets []string) (string, error) {
	if !filepath.IsAbs(host) || filepath.Clean(host) != host || strings.ContainsRune(host, 0) {
		return "", refuseMount(host, "is not an absolute, clean path")
	}
	real := ""
	_, err := os.Stat(host) // which names all of it in its error
	if err == nil {
		real, err = filepath.EvalSymlinks(host)
	}
	if err != nil {
		return "", refuseMount(host, "can't be shown: "+err.Error())
	}
	if real == filepath.VolumeName(real)+string(filepath.Separator) || real == "/proc" || under(real, "/proc") {
		return "", refuseMount(host, "would show the whole host")
	}
	for _, dir := range []string{"/dev", "/sys"} {
		if real == dir || under(real, dir) {
			return "", refuseMount(host, "would show the host's devices")
		}
	}
	for _, s := range sockets {
		if s == real || under(s, real) {
			return "", refuseMount(host, "would show "+s+", by which a container engine is told to do anything")
		}
	}
	info, err := os.Stat(real)
	if err == nil && info.IsDir() {
		err = canRead(real)
	}
	if err != nil {
		return "", refuseMount(host, "can't be shown: "+err.Error())
	}
	return real, nil
}

// sockets are where engines listen, links followed.
func sockets(address string) []string {
	list := []string{
		address, os.Getenv("DOCKER_HOST"), os.Getenv("CONTAINER_HOST"),
		"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock",
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		list = append(list, filepath.Join(dir, "docker.sock"), filepath.Join(dir, "podman", "podman.sock"))
	}
	var found []string
	for _, s := range list {
		s = strings.TrimPrefix(s, "unix://")
		if !filepath.IsAbs(s) {
			continue
		}
		if real, err := filepath.EvalSymlinks(s); err == nil {
			s = real
		}
		found = append(found, s)
	}
	return found
}

func under(name, dir string) bool { return strings.HasPrefix(name, dir+"/") }

func refuseMount(name, why string) error {
	return &backends.Refusal{Reason: fmt.Sprintf("mount: %q %s", name, why), Remedy: "choose another path for --mount or --workspace"}
}
