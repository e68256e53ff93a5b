package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
)

// landlockSetup returns the plan of PID 1's stand-in in the profile "landlock", for hosts that forbid user namespaces. There are
// no namespaces: the host's processes and mounts stay visible, and the sandbox relies on Landlock, seccomp and limits. The
// stand-in is a subreaper: orphans become its children, and it kills them all when the server closes its socket or dies.
func (b *Backend) landlockSetup(s *Sandbox) *plan {
	p := newPlan(112)
	join(s.cgroup, p)
	p.prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)
	if b.root {
		dropBounding(p.try) // which it may lack the right to
		becomeUser(p, s.uid)
		p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 1)
	}
	b.settle(p, s, s.dir, os.DevNull, s.tmp)
	return p
}

// makeDir makes the workspace of a sandbox that can't mount one, and a directory for temporary files beside it.
func (s *Sandbox) makeDir() error {
	if err := s.backend.ownWork(); err != nil {
		return fmt.Errorf("make workspace: %w", err)
	}
	s.hostDir = filepath.Join(s.backend.workDir(), s.backend.cgroups.Name, s.id)
	s.dir, s.tmp = filepath.Join(s.hostDir, "workspace"), filepath.Join(s.hostDir, "tmp")
	for _, dir := range []string{s.dir, s.tmp} {
		err := os.MkdirAll(dir, 0o711)
		if err == nil && s.uid != 0 {
			err = os.Chown(dir, s.uid, s.uid)
		}
		if err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	if s.host.Host != "" {
		s.dir = s.host.Host
	}
	return nil
}

// workDir returns the directory of the workspaces of the profile "landlock". The unprivileged user of root's sandboxes
// could not pass root's state directory.
func (b *Backend) workDir() string {
	if b.root {
		return "/var/lib/sandboxmcp/work" // on disk: what lies in /run takes memory
	}
	return filepath.Join(b.config.StateDir, "work")
}

// ownWork makes and locks, once, the directory of all workspaces of this server, and removes those of dead servers.
func (b *Backend) ownWork() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.workLock != nil {
		return nil
	}
	b.removeDeadWork()
	dir := filepath.Join(b.workDir(), b.cgroups.Name)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	f, err := cgroup.Lock(dir)
	b.workLock = f
	return err
}

// closeWork removes that directory.
func (b *Backend) closeWork() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.workLock != nil {
		os.Remove(b.workLock.Name())
		b.workLock.Close()
	}
}

// removeAll removes a directory and its content, also where a program removed the right to.
func removeAll(dir string) error {
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// removeDeadWork removes the workspaces of dead servers.
func (b *Backend) removeDeadWork() {
	names, _ := filepath.Glob(filepath.Join(b.workDir(), cgroup.Prefix+"*"))
	for _, name := range names {
		if cgroup.Dead(name) {
			removeAll(name)
		}
	}
}
