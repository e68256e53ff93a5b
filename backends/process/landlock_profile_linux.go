package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
)

// landlockSetup is the plan of PID 1's stand-in in the profile "landlock", for hosts that forbid user
// namespaces. There are no namespaces: the host's processes and mounts stay visible to the kernel,
// and Landlock, seccomp and limits have to do. The stand-in is a subreaper: orphans come to it, and
// it kills them all when the server closes its socket or dies.
func (b *Backend) landlockSetup(s *sandbox) *plan {
	p := newPlan()
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

// makeDir makes the workspace of a sandbox that can't mount one, and a folder for temporary files
// beside it.
func (s *sandbox) makeDir() error {
	if err := s.backend.ownWork(); err != nil {
		return fmt.Errorf("make workspace: %w", err)
	}
	s.hostDir = filepath.Join(s.backend.workDir(), s.backend.cgroups.Name, s.id)
	s.dir, s.tmp = filepath.Join(s.hostDir, "workspace"), filepath.Join(s.hostDir, "tmp")
	for _, dir := range []string{s.dir, s.tmp} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
		if s.uid == 0 {
			continue
		}
		if err := os.Chown(dir, s.uid, s.uid); err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	if s.host.Host != "" {
		s.dir = s.host.Host
	}
	return nil
}

// workDir is where workspaces of the profile "landlock" live. The unprivileged user that root's
// sandboxes run under could not pass root's state folder.
func (b *Backend) workDir() string {
	if b.root {
		return "/var/lib/sandboxmcp/work" // on disk: what lies in /run takes memory
	}
	return filepath.Join(b.config.StateDir, "work")
}

// closed returns the folder above name that other users can't pass, "" if there is none.
func closed(name string) string {
	for dir := filepath.Dir(name); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return dir
		}
	}
	return ""
}

// removeDir removes what makeDir made.
func (s *sandbox) removeDir() error {
	if s.hostDir == "" {
		return nil
	}
	return removeAll(s.hostDir)
}

// ownWork makes and locks, once, the folder that holds all workspaces of this server, and removes
// those of servers that are no more.
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

// closeWork removes that folder.
func (b *Backend) closeWork() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.workLock != nil {
		os.Remove(b.workLock.Name())
		b.workLock.Close()
	}
}

// removeAll removes a folder with what is in it, also where a program took the right to.
func removeAll(dir string) error {
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// removeDeadWork removes the workspaces of servers that are no more.
func (b *Backend) removeDeadWork() {
	names, _ := filepath.Glob(filepath.Join(b.workDir(), cgroup.Prefix+"*"))
	for _, name := range names {
		if cgroup.Dead(name) {
			removeAll(name)
		}
	}
}

// landlockRules are what a program may reach on the host when it has no root folder of its own.
func landlockRules(s *sandbox) []rule {
	const all = fsRead | fsWrite
	rules := []rule{{s.dir, all}, {s.tmp, all}, {"/proc/self", fsRead}}
	if s.host.Host != "" && !s.host.Write {
		rules[0].access = fsRead
	}
	for _, dir := range backends.SystemDirs {
		rules = append(rules, rule{dir, fsRead})
	}
	for _, name := range etcNames() {
		rules = append(rules, rule{"/etc/" + name, fsRead})
	}
	for _, name := range []string{
		"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/debian_version", "/proc/meminfo", "/proc/cpuinfo",
		"/proc/stat", "/proc/version", "/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/pid_max",
		"/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap", "/sys/devices/system/cpu",
	} {
		rules = append(rules, rule{name, ll.AccessFSReadFile | ll.AccessFSReadDir})
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		rules = append(rules, rule{"/dev/" + name, ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSIoctlDev})
	}
	return rules
}

// threadsOf counts the threads that a user has on this host.
func threadsOf(uid int) uint64 {
	var sum uint64
	names, _ := filepath.Glob("/proc/[1-9]*/status")
	for _, name := range names {
		text, _ := readProc(name)
		if real, _, _ := strings.Cut(statusField(text, "Uid"), "\t"); real == strconv.Itoa(uid) {
			n, _ := strconv.ParseUint(statusField(text, "Threads"), 10, 32)
			sum += n
		}
	}
	return sum
}

// dirsUsed adds up what the sandbox's own folders hold, in bytes.
func (s *sandbox) dirsUsed() int64 {
	const inode = 1 << 10 // or empty files could use up those of the host, and each look would take longer
	var sum int64
	filepath.WalkDir(s.hostDir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += max(info.Sys().(*syscall.Stat_t).Blocks*512, inode)
		}
		return nil
	})
	return sum
}
