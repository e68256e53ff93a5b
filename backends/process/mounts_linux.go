package process

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// checkMounts refuses mounts that can't be made at their places, and returns spec with the host's links resolved.
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
	hidden := backends.LocateHidden(b.config.Hidden)
	if err := hidden.Check(spec, resolved); err != nil {
		return resolved, err
	}
	if spec.Profile == "landlock" {
		if resolved.Workspace.Propose { // a copy leaves out hidden files
			mounted := resolved
			mounted.Workspace = backends.Mount{}
			return resolved, hidden.RefuseUncovered(mounted, "the profile landlock, which can't mount, can't hide")
		}
		return resolved, hidden.RefuseUncovered(resolved, "the profile landlock, which can't mount, can't hide")
	}
	return resolved, nil
}

// checkRuntime refuses mounts that overlap the interpreter's own directories and links.
func (s *Sandbox) checkRuntime(asked []backends.Mount) error {
	for _, m := range asked {
		for _, prefix := range s.runtime.Prefixes {
			if paths.Within(m.Inside, prefix) {
				return backends.RefuseMount(m.Inside, "is in the interpreter's own directory "+prefix)
			}
		}
		for link := range s.runtime.Links {
			if paths.Within(link, m.Inside) || paths.Within(m.Inside, link) {
				return backends.RefuseMount(m.Inside, "conflicts with the interpreter's own link "+link)
			}
		}
	}
	return nil
}

// checkRights refuses writable mounts that contain files whose privileges others would gain from a program's
// writes: see [backends.CheckRights].
func checkRights(ctx context.Context, mounts []backends.Mount) error {
	for _, m := range mounts {
		uid := os.Geteuid()
		if info, err := os.Stat(m.Host); uid == 0 && err == nil {
			uid = int(info.Sys().(*syscall.Stat_t).Uid) // the user that own maps
		}
		if err := backends.CheckRights(ctx, m, uid); err != nil {
			return err
		}
	}
	return nil
}

// mapOwners makes, for each writable mount of a sandbox that root starts, the user namespace that maps the owner of
// the host's files to the sandbox's user, and created files back: mount_setattr(2).
func (s *Sandbox) mapOwners(ctx context.Context) error {
	if s.uid == 0 || s.landlockOnly {
		return nil
	}
	for _, m := range append(slices.Clone(s.mounts), s.host) {
		if !m.Write && !m.Propose || m.Host == "" || s.copied != "" && m == s.host {
			continue
		}
		ids, err := s.backend.idmap(ctx, m.Host, s.uid, m.Propose)
		if err != nil {
			return fmt.Errorf("map the owner of %s: %w", m.Host, err)
		}
		s.owned = append(s.owned, owned{m.Host, ids})
	}
	return nil
}

// idmap makes a user namespace with a process that lives only until its maps are written. With all, it maps all
// other users to themselves, for a mount that is read-only on the host: an overlay can't copy a file whose owner is
// unmapped.
func (b *Backend) idmap(ctx context.Context, host string, uid int, all bool) (*os.File, error) {
	info, err := os.Stat(host)
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t)
	child, err := b.SpawnByLauncher(ctx, unix.CLONE_NEWUSER)
	if err != nil {
		return nil, err
	}
	defer child.Remove()
	proc := fmt.Sprintf("/proc/%d/", child.pid)
	for _, m := range []struct {
		file string
		id   uint32
	}{{"uid_map", owner.Uid}, {"gid_map", owner.Gid}} {
		lines := fmt.Sprintf("%d %d 1\n", m.id, uid)
		if all {
			lines = swappedMap(m.id, uint32(uid))
		}
		if err := os.WriteFile(proc+m.file, []byte(lines), 0); err != nil {
			return nil, err
		}
	}
	return os.Open(proc + "ns/user")
}

// swappedMap returns the lines of a map in which two IDs are swapped, and all others are unchanged.
func swappedMap(a, b uint32) (lines string) {
	next := uint64(0)
	for _, n := range slices.Compact([]uint32{min(a, b), max(a, b)}) {
		if uint64(n) > next {
			lines += fmt.Sprintf("%d %d %d\n", next, next, uint64(n)-next)
		}
		lines += fmt.Sprintf("%d %d 1\n", n, a+b-n)
		next = uint64(n) + 1
	}
	if next < math.MaxUint32 {
		lines += fmt.Sprintf("%d %d %d\n", next, next, math.MaxUint32-next)
	}
	return lines
}
