package process

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// checkMounts refuses requests that can't be shown where they ask to be, and returns spec with all links on
// the host followed.
func (b *Backend) checkMounts(spec backends.Spec) (backends.Spec, error) {
	if err := backends.CheckPlaces(spec); err != nil {
		return spec, err
	}
	for _, m := range spec.Mounts {
		if spec.Profile == "landlock" && m.Host != m.Inside {
			return spec, backends.RefuseMount(m.Inside, "would have to be mounted, which the profile landlock can't do")
		}
	}
	resolved, err := backends.ResolveMounts(spec)
	if err != nil || len(resolved.Mounts) == 0 && resolved.Workspace.Host == "" {
		return resolved, err
	}
	hidden := backends.Hide(b.config.Hidden)
	if err := hidden.Check(spec, resolved); err != nil {
		return resolved, err
	}
	if spec.Profile == "landlock" {
		return resolved, hidden.Uncovered(resolved, "the profile landlock, which can't mount, can't hide")
	}
	return resolved, nil
}

// checkRuntime refuses mounts that meet the interpreter's own folders and links.
func (s *sandbox) checkRuntime(asked []backends.Mount) error {
	for _, m := range asked {
		for _, prefix := range s.runtime.Prefixes {
			if paths.Within(m.Inside, prefix) {
				return backends.RefuseMount(m.Inside, "lies in the interpreter's own folder "+prefix)
			}
		}
		for link := range s.runtime.Links {
			if paths.Within(link, m.Inside) || paths.Within(m.Inside, link) {
				return backends.RefuseMount(m.Inside, "meets the interpreter's own link "+link)
			}
		}
	}
	return nil
}

// owned is a host path that the sandbox's user may write, although on the host somebody else owns it.
type owned struct {
	host string
	ids  *os.File // a user namespace in which the owner's number means the sandbox's user
}

// own makes, for each writable mount of a sandbox that root starts, the user namespace that maps
// the owner of the host's files to the sandbox's user, and back when that creates files: mount_setattr(2).
func (s *sandbox) own(ctx context.Context) error {
	if s.uid == 0 || s.landlockOnly {
		return nil
	}
	for _, m := range append(slices.Clone(s.mounts), s.host) {
		if !m.Write || m.Host == "" {
			continue
		}
		ids, err := s.backend.idmap(ctx, m.Host, s.uid)
		if err != nil {
			return fmt.Errorf("map the owner of %s: %w", m.Host, err)
		}
		s.owned = append(s.owned, owned{m.Host, ids})
	}
	return nil
}

// idmap makes a user namespace by a process that lives only as long as its maps are written.
func (b *Backend) idmap(ctx context.Context, host string, uid int) (*os.File, error) {
	info, err := os.Stat(host)
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t)
	child, err := b.spawnByLauncher(ctx, unix.CLONE_NEWUSER)
	if err != nil {
		return nil, err
	}
	defer child.Remove()
	proc := fmt.Sprintf("/proc/%d/", child.pid)
	for _, m := range []struct {
		file string
		id   uint32
	}{{"uid_map", owner.Uid}, {"gid_map", owner.Gid}} {
		if err := os.WriteFile(proc+m.file, fmt.Appendf(nil, "%d %d 1", m.id, uid), 0); err != nil {
			return nil, err
		}
	}
	return os.Open(proc + "ns/user")
}

// mapOwner begins the name of the step that a file system may not support.
const mapOwner = "map the owner of "

// bindOwned shows a host path under another owner. Only a mount that is nowhere yet can be given
// such a map.
func (r *root) bindOwned(o owned, at string) {
	tree := slot(r.free)
	r.set(tree, "open_tree "+o.host, unix.SYS_OPEN_TREE, cwd, r.str(o.host), val(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
	attr := value(r.plan, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	userns := uint64(unsafe.Offsetof(unix.MountAttr{}.Userns_fd))
	r.poke(arg{launch.Address, attr.v + userns}, r.file(o.ids))
	r.do(mapOwner+o.host, unix.SYS_MOUNT_SETATTR, tree, r.str(""), val(unix.AT_EMPTY_PATH), attr, val(unsafe.Sizeof(unix.MountAttr{})))
	r.do("move_mount "+at, unix.SYS_MOVE_MOUNT, tree, r.str(""), cwd, r.str(newRoot+at), val(unix.MOVE_MOUNT_F_EMPTY_PATH))
	r.do("close "+o.host, unix.SYS_CLOSE, tree)
}

// mountsOf are the mounts a sandbox shows besides the system's folders: the interpreter's own, then the request's.
func mountsOf(prefixes []string, asked []backends.Mount) []backends.Mount {
	var mounts []backends.Mount
	for _, p := range prefixes {
		mounts = append(mounts, backends.Mount{Host: p, Inside: p})
	}
	return append(mounts, asked...)
}

// cover hides what of a host path, which is shown at a place, no program may see.
func (r *root) cover(host, at string) {
	if len(r.hide) == 0 {
		return
	}
	if r.hidden == nil {
		h := backends.Hide(r.hide)
		r.hidden = &h
	}
	for _, c := range r.hidden.Covers(backends.Mount{Host: host, Inside: at}) {
		if c.Dir {
			r.tmpfs(newRoot+c.Inside, "mode=555,size=4k,nr_inodes=1", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
			continue
		}
		r.do("cover "+c.Inside, unix.SYS_MOUNT, r.str("/dev/null"), r.str(newRoot+c.Inside), val(0), val(unix.MS_BIND), val(0))
		r.attr(newRoot+c.Inside, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
}
