package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/snapshot"
)

// overlays caches whether the kernel can mount overlays of the host's directories, by file system.
type overlays struct {
	mu    sync.Mutex
	known map[uint64]error // by device; nil means that it can
}

// chooseProposal decides whether a workspace with proposed changes is an overlay, which needs root to mount it, or a
// copy.
func (s *Sandbox) chooseProposal(ctx context.Context) (err error) {
	switch {
	case !s.host.Propose:
	case s.landlockOnly:
		s.copied = "the profile landlock can't mount an overlay"
	case s.inContainer:
		s.copied = "a container has a copy"
	default:
		s.copied, err = s.backend.withoutOverlay(ctx, s.host.Host)
	}
	return err
}

// withoutOverlay returns why this user can't have an overlay of a directory on this kernel; "" if it can.
func (b *Backend) withoutOverlay(ctx context.Context, host string) (why string, err error) {
	if !b.root {
		if name := foreign(host); name != "" {
			return fmt.Sprintf("an overlay of an ordinary user can't change %s, whose owner or group is another", name), nil
		}
	}
	info, err := os.Stat(host)
	if err != nil {
		return "", err
	}
	device := uint64(info.Sys().(*syscall.Stat_t).Dev)
	b.overlays.mu.Lock()
	defer b.overlays.mu.Unlock()
	failed, known := b.overlays.known[device]
	if !known {
		failed = b.probeOverlay(ctx, host)
		if failed != nil && !errors.As(failed, new(*stepError)) {
			return "", failed
		}
		if b.overlays.known == nil {
			b.overlays.known = map[uint64]error{}
		}
		b.overlays.known[device] = failed
	}
	if failed != nil {
		why = "the kernel makes no overlay of it: " + failed.Error()
	}
	return why, nil
}

// probeOverlay mounts an overlay of a directory in a process of its own.
func (b *Backend) probeOverlay(ctx context.Context, host string) error {
	child, err := b.SpawnByLauncher(ctx, b.Namespaces())
	if err != nil {
		return err
	}
	defer child.Remove()
	var ids *os.File
	if child.uid != 0 {
		if ids, err = b.idmap(ctx, host, child.uid, true); err != nil {
			return err
		}
		defer ids.Close()
	}
	p := newPlan(32)
	r := &root{plan: p, made: map[string]bool{"/": true, "/run": true}}
	r.mkdir(diskAt)
	r.mountTmpfs(newRoot+diskAt, "size=1m", unix.MS_NOSUID|unix.MS_NODEV)
	r.overlay(host, child.uid, ids)
	p.sendReady()
	return child.execute(ctx, p, launch.ForInit)
}

// propose prepares Files.Changes. upper is the upper directory of an overlay. Without an overlay, propose makes the
// copy now, except in a container, where Unpack does.
func (s *Sandbox) propose(ctx context.Context, upper *os.File) error {
	defer upper.Close() // a nil file is fine
	if !s.host.Propose || s.inContainer {
		return nil
	}
	hidden := backends.LocateHidden(s.backend.config.Hidden).HiddenIn(s.host.Host)
	host, err := hostfs.OpenDir(s.host.Host)
	if err == nil && s.copied == "" {
		return s.files.ProposeOverlay(upper, host, hidden)
	}
	if err == nil {
		defer host.Close()
		err = s.files.ProposeCopy(ctx, snapshot.Source{Dir: host, Hidden: hidden, Disk: s.limits.Disk})
	}
	if errors.Is(err, snapshot.ErrFull) {
		return backends.RefuseCopy(backends.Spec{Workspace: s.host, Limits: s.limits}, s.copied)
	} else if err != nil {
		return fmt.Errorf("copy %s: %w", s.host.Host, err)
	}
	return nil
}

// foreign returns a path near the top of a directory that this user can write to, and whose owner or group has no ID in
// this user's user namespace: the kernel can't copy it from one layer of an overlay to the other. A search deeper than
// the first entries would take too long; in deeper directories, writing fails with EOVERFLOW.
func foreign(host string) string {
	const entries = 2000
	top, err := os.OpenRoot(host)
	if err != nil {
		return ""
	}
	defer top.Close()
	left := entries
	for todo := []string{"."}; len(todo) > 0 && left > 0; todo = todo[1:] {
		dir, err := top.OpenFile(todo[0], os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NOATIME, 0)
		if err != nil {
			continue // a directory of another user was already checked as an entry
		}
		names, _ := dir.Readdirnames(left)
		left -= len(names)
		for _, name := range append(names, ".") {
			var st unix.Stat_t
			err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
			kind := st.Mode & unix.S_IFMT
			if err != nil || kind != unix.S_IFDIR && kind != unix.S_IFREG {
				continue
			}
			other := int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()
			if other && unix.Faccessat(int(dir.Fd()), name, unix.W_OK, unix.AT_EACCESS) == nil {
				dir.Close()
				return path.Join(host, todo[0], name)
			}
			if kind == unix.S_IFDIR && name != "." {
				todo = append(todo, path.Join(todo[0], name))
			}
		}
		dir.Close()
	}
	return ""
}
