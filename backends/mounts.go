package backends

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Workspace is the path of the program's files inside, and GuestPath that of this program's own file, with
// [Spec.Guest].
const (
	Workspace = "/workspace"
	GuestPath = "/.sandboxmcp/init"
)

// SystemDirs are the operating system's own directories, except /etc. Programs see them read-only.
var SystemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// maxMounts bounds the mounts of a sandbox. A hardened process passes a descriptor for each writable mount, and a
// message holds 32 descriptors.
const maxMounts = 24

// CheckPlaces refuses mounts whose path inside is not available: in directories of the system or of the sandbox
// itself, to which a backend may add its own, and within one another.
func CheckPlaces(spec Spec, own ...string) error {
	if err := checkProposal(spec); err != nil {
		return err
	}
	if len(spec.Mounts) > maxMounts {
		return Refuse(fmt.Sprintf("%d mounts, the maximum is %d", len(spec.Mounts), maxMounts), "mount a directory above them")
	}
	system := append(slices.Clone(SystemDirs), "/etc")
	covered := append([]string{"/proc", "/dev", "/sys", "/run"}, own...) // including everything below them
	reserved := slices.Concat([]string{"/", "/tmp", Workspace}, covered, system)
	for i, m := range spec.Mounts {
		at := m.Inside
		in := func(dir string) bool { return paths.Below(at, dir) }
		switch {
		case !path.IsAbs(at) || path.Clean(at) != at || strings.ContainsRune(at, 0):
			return RefuseMount(at, "is not an absolute, clean path")
		case slices.ContainsFunc(system, in):
			return RefuseMount(at, "is in a system directory, which is read-only")
		case slices.Contains(reserved, at), slices.ContainsFunc(covered, in):
			return RefuseMount(at, "is reserved for the sandbox")
		case spec.Workspace.Host != "" && in(Workspace):
			return RefuseMount(at, "is in the host's workspace, in which a directory would have to be made for it")
		case slices.ContainsFunc(spec.Mounts, func(o Mount) bool { return in(o.Inside) }):
			return RefuseMount(at, "is inside another mount, whose host files would decide where it leads")
		case slices.ContainsFunc(spec.Mounts[:i], func(o Mount) bool { return o.Inside == at }):
			return RefuseMount(at, "is named twice")
		}
	}
	return nil
}

// RefuseMount returns the refusal of a mount, or of a host workspace, because of the path name.
func RefuseMount(name, why string) error {
	return Refuse(fmt.Sprintf("mount: %q %s", name, why), "choose another path for ", remedy.Mount, " or ", remedy.Workspace)
}

// Mount mounts a host path inside the sandbox.
type Mount struct {
	Host   string // absolute
	Inside string // absolute; ignored for Spec.Workspace
	Write  bool   // writable; read-only by default
	// Propose, in Spec.Workspace, lets programs write while the host's directory stays unchanged: Files.Changes
	// lists the difference. It excludes Write.
	Propose bool
}

// User returns the name of the sandbox's user and its home directory.
func (s Spec) User() (name, home string) {
	if s.Home == "" {
		return "sandbox", Workspace
	}
	return path.Base(s.Home), s.Home
}

// CheckHome refuses a home directory that is not directly below /home.
func CheckHome(spec Spec) error {
	if spec.Home == "" {
		return nil
	}
	name, below := strings.CutPrefix(spec.Home, "/home/")
	if !below || name == "" || strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		return Refuse(fmt.Sprintf("the home directory %q is not of the form /home/NAME, in lower-case letters and digits", spec.Home))
	}
	return nil
}

// EtcFiles returns files that replace the host's or the image's in a sandbox's /etc, by name. uid and gid are the
// sandbox user's IDs inside, and DNS queries go to the address that Spec.Gateway serves.
func (s Spec) EtcFiles(uid, gid int) map[string]string {
	name, home := s.User()
	return map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\n%s:x:%d:%d:%[1]s:%[4]s:/bin/sh\n"+
			"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", name, uid, gid, home),
		"group":       fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", name, gid),
		"hosts":       "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
	}
}
