package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/notify"
)

// File system rights, by the ABI that introduced them: landlock(7).
const (
	fsRead  = ll.AccessFSReadFile | ll.AccessFSReadDir | ll.AccessFSExecute
	fsABI1  = 1<<13 - 1
	fsWrite = fsABI1&^(fsRead|ll.AccessFSMakeBlock|ll.AccessFSMakeChar) | ll.AccessFSRefer | ll.AccessFSTruncate | ll.AccessFSResolveUnix
	fsFile  = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSExecute | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

// truncateABI is the first ABI that restricts truncate(2), and opening for reading with O_TRUNC.
const truncateABI = 3

// handledRights returns the rights that the ruleset denies unless a rule grants them.
func handledRights(abi int) (file, net, scoped uint64) {
	file = fsABI1
	if abi >= 2 {
		file |= ll.AccessFSRefer
	}
	if abi >= truncateABI {
		file |= ll.AccessFSTruncate
	}
	if abi >= 4 {
		net = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	}
	if abi >= 5 {
		file |= ll.AccessFSIoctlDev
	}
	if abi >= 6 {
		scoped = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	if abi >= 9 {
		file |= ll.AccessFSResolveUnix
	}
	return file, net, scoped
}

// rule grants rights below a path.
type rule struct {
	path   string
	access uint64
}

// rules returns the rules of a sandbox. In a hardened one, every visible file may be read; without a root directory
// of its own, only the named paths.
func (s *Sandbox) rules() []rule {
	const all = fsRead | fsWrite
	rules := []rule{
		{workspace, all}, {"/tmp", all}, {"/var/tmp", all}, {"/dev/shm", all},
		{"/dev", fsRead | ll.AccessFSWriteFile | ll.AccessFSIoctlDev}, {"/", fsRead},
	}
	if s.landlockOnly {
		rules = landlockRules(s)
	}
	if s.home != "" {
		rules = append(rules, rule{s.home, all})
	}
	for _, m := range s.mounts {
		access := uint64(fsRead)
		if m.Write {
			access = all
		}
		if m.Write || s.landlockOnly {
			rules = append(rules, rule{m.Inside, access})
		}
	}
	return rules
}

// restrict restricts the process by all rights of the kernel's Landlock ABI.
//
// TCP is restricted only without a network namespace: with one, the only network is the sandbox's own loopback,
// where programs may listen.
func restrict(p *plan, s *Sandbox, abi int) {
	file, net, scoped := handledRights(abi)
	if !s.landlockOnly {
		net = 0
	}
	attr := value(p, ll.RulesetAttr{HandledAccessFS: file, HandledAccessNet: net, Scoped: scoped})
	ruleset := p.get("landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, attr, val(attrSize(abi)), val(0))
	for _, r := range s.rules() {
		addRule(p, ruleset, r, file)
	}
	probe := []arg{cwd, p.str("/proc/self/comm"), val(unix.O_WRONLY | unix.O_CLOEXEC), val(0)}
	fd := p.get("open /proc/self/comm", unix.SYS_OPENAT, probe...)
	p.do("close /proc/self/comm", unix.SYS_CLOSE, fd)
	// PID 1 has set no_new_privs; otherwise this call would fail.
	p.do("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, val(0))
	p.do("close ruleset", unix.SYS_CLOSE, ruleset)
	// Test the ruleset: a path that could be opened just before must be refused now.
	p.refused(unix.EACCES, "landlock self-test", unix.SYS_OPENAT, probe...)
}

// attrSize returns the size of landlock_ruleset_attr that an ABI accepts; the kernel refuses a longer one with
// E2BIG.
func attrSize(abi int) int {
	switch {
	case abi < 4:
		return 8
	case abi < 6:
		return 16
	}
	return 24
}

// addRule adds one rule. It skips a missing path, and grants no directory rights to a path that is not a directory.
func addRule(p *plan, ruleset arg, r rule, handled uint64) {
	fd := p.tryOpen(r.path, unix.O_PATH)
	for _, access := range slices.Compact([]uint64{r.access & handled & fsFile, r.access & handled}) {
		attr := value(p, [2]uint64{access}) // struct landlock_path_beneath_attr; the directory's descriptor follows
		p.poke(arg{v: attr.v + 8}, fd)
		p.try("landlock_add_rule "+r.path, unix.SYS_LANDLOCK_ADD_RULE, ruleset, val(unix.LANDLOCK_RULE_PATH_BENEATH), attr, val(0))
	}
	p.try("close "+r.path, unix.SYS_CLOSE, fd)
}

// landlockRules returns the host paths that a program may use without a root directory of its own.
func landlockRules(s *Sandbox) []rule {
	const all = fsRead | fsWrite
	rules := []rule{{s.dir, all}, {s.tmp, all}, {"/proc/self", fsRead}}
	if s.host.Host != "" && !s.host.Write && !s.host.Propose {
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

// landlockSetup returns the plan of PID 1's substitute in the profile "landlock", for hosts that forbid user
// namespaces. It makes no namespaces: the host's processes and mounts stay visible, and the sandbox relies on
// Landlock, seccomp and limits. The substitute is a subreaper: orphans become its children, and it kills them all
// when the server closes its socket or dies.
func (b *Backend) landlockSetup(s *Sandbox) *plan {
	p := newPlan(112)
	joinCgroups(s.cgroup, p)
	p.prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)
	if b.root {
		dropBounding(p, launch.AnyErrno) // it may lack the right to
		becomeUser(p, s.uid)
		p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 1)
	}
	b.finishSetup(p, s, s.dir, os.DevNull, s.tmp)
	return p
}

// makeWorkspace makes the workspace of a sandbox that can't mount one, and beside it a directory for temporary
// files.
func (s *Sandbox) makeWorkspace() error {
	if err := s.backend.lockWorkDir(); err != nil {
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
	if s.host.Host != "" && !s.host.Propose {
		s.dir = s.host.Host
	}
	return nil
}

// workDir returns the directory of the workspaces of the profile "landlock". The unprivileged user of root's
// sandboxes can't enter root's state directory.
func (b *Backend) workDir() string {
	if b.root {
		return "/var/lib/sandboxmcp/work" // on disk: files in /run take memory
	}
	return filepath.Join(b.config.StateDir, "work")
}

// lockWorkDir makes and locks, once, the directory of this server's workspaces, and removes those of dead servers.
func (b *Backend) lockWorkDir() error {
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

// closeWork removes this server's directory of workspaces.
func (b *Backend) closeWork() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.workLock != nil {
		os.Remove(b.workLock.Name())
		b.workLock.Close()
	}
}

// removeAll removes a directory and its contents, even if a program removed the permission to.
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
		if cgroup.IsDead(name) {
			removeAll(name)
		}
	}
}

// serveNotifications performs the calls that the filter forwards, on files that the sandbox may write: see package
// notify.
func (s *Sandbox) serveNotifications(listener *os.File) {
	var roots []string
	for _, r := range s.rules() {
		if r.access&fsWrite == fsWrite {
			if root, err := filepath.EvalSymlinks(r.path); err == nil {
				roots = append(roots, root)
			}
		}
	}
	notify.Serve(listener, roots)
}
