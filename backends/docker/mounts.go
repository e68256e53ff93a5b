package docker

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// loopback is the address of a sandbox's DNS.
var loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// inodes is how many files a file system in memory may have, each of which costs the kernel memory that
// Size does not count. The process backend has the same.
const inodes = "nr_inodes=256k"

// tmpfs are the file systems in memory, as mount options by path: those that belong to the user, and those that cover
// the image's volumes and the paths that no program may see.
func tmpfs(c container.Container, i container.Image) map[string]string {
	uid, gid, _ := strings.Cut(c.User, ":")
	m := map[string]string{}
	for _, t := range c.Tmpfs {
		options := fmt.Sprintf("size=%d,mode=%o,%s,nosuid,nodev", t.Size, t.Mode, inodes)
		if uid != "" && gid != "" {
			options += ",uid=" + uid + ",gid=" + gid
		}
		if t.Exec {
			options += ",exec"
		}
		m[path.Clean(t.Path)] = options
	}
	ours := []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} // the engine's, in fact
	for p := range m {
		ours = append(ours, p)
	}
	for _, b := range c.Binds {
		ours = append(ours, path.Clean(b.Inside))
	}
	for _, v := range slices.Concat(c.Covers, c.Volumes, i.Volumes) {
		if v = path.Clean(v); !slices.Contains(ours, v) {
			m[v] = cover(v, ours)
		}
	}
	return m
}

// cover returns the options of an empty file system over a volume. Where one of our mounts lies below it, the runtime
// has to make a directory for that, so it can't be read-only; but it belongs to root, and nobody else may write.
func cover(volume string, ours []string) string {
	const options = "size=4k,nr_inodes=64,mode=555,nosuid,nodev,noexec"
	for _, p := range ours {
		if paths.Below(p, volume) {
			return options
		}
	}
	return options + ",ro"
}

// mounts are the binds of the host's paths. An engine since 25 makes a directory read-only with everything that is
// mounted below it, and must not fall back to less; before, mounts below would stay writable, so they are left out.
func (l *link) mounts(binds []container.Bind) []mount.Mount {
	var all []mount.Mount
	for _, b := range binds {
		m := mount.Mount{Source: b.Host, Target: b.Inside, ReadOnly: !b.Write}
		if strings.HasPrefix(b.Host, "/") {
			m.Type = mount.TypeBind
			m.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate}
			m.BindOptions.ReadOnlyForceRecursive = !b.Write && l.recursive()
			m.BindOptions.NonRecursive = !b.Write && !l.recursive()
		} else {
			m.Type = mount.TypeVolume
			m.VolumeOptions = &mount.VolumeOptions{NoCopy: true}
		}
		all = append(all, m)
	}
	return all
}

// recursive reports whether the engine and its kernel (mount_setattr, 5.12) can make a whole tree of mounts read-only.
func (l *link) recursive() bool {
	var major, minor int
	n, _ := fmt.Sscanf(l.info.KernelVersion, "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 12) && versions.GreaterThanOrEqualTo(l.ClientVersion(), "1.44")
}
