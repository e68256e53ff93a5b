package process

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// namespaces are the namespaces in which a hardened sandbox's PID 1 starts. The cgroup namespace is made later,
// after PID 1 has joined its cgroup; the user namespace that denies the program the mounts comes last.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWTIME

// prepare returns the plan for the common setup of all hardened sandboxes. PID 1 executes it right after the fork,
// possibly long before the server knows which sandbox it will serve.
//
// If root starts the server, root owns the namespaces. For another user, an outer user namespace owns them, in
// which that user has all capabilities, but is not root.
func (b *Backend) prepare(child *Init) *plan {
	p := newPlan(136)
	joinCgroups(child.cgroup, p)
	p.do("umask", unix.SYS_UMASK, val(0o022)) // independent of the caller's: others must be able to read our files
	if b.root {
		p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 0)
	} else {
		mapUser(p, insideID, os.Geteuid(), os.Getegid())
	}
	p.do("unshare(cgroup)", unix.SYS_UNSHARE, val(unix.CLONE_NEWCGROUP))
	setUpRoot(p, b.config.Hidden)
	setUpNamespaces(p, newRoot)
	readyWithLimits(p, child, newRoot)
	return p
}

// setUpNamespaces sets up the namespaces that sandboxes do not share. at is the path of the root directory.
func setUpNamespaces(p *plan, at string) {
	name := "sandbox"
	p.do("sethostname", unix.SYS_SETHOSTNAME, p.str(name), val(len(name)))
	configure(p, "loopback up", "lo", unix.SIOCSIFFLAGS, uint16(unix.IFF_UP|unix.IFF_RUNNING)) // the only interface
	p.mountProc(at, "")
	p.maskProc(at)
	boundSocketBuffers(p, at)
	// The limit is a small part of the host's terminals (kernel.pty.max).
	p.do("mount /dev/pts", unix.SYS_MOUNT, p.str("devpts"), p.str(at, "/dev/pts"), p.str("devpts"),
		val(unix.MS_NOSUID|unix.MS_NOEXEC), p.str("newinstance,ptmxmode=0666,mode=620,max=64"))
}

// setup returns the plan that turns a prepared PID 1 into that of sandbox s, and drops its privileges.
//
// Root's PID 1 becomes an unprivileged user here. In both cases the program then lives in a second, inner user
// namespace, where even a process that regained all capabilities would have none over mounts, network or other
// namespaces.
func (b *Backend) setup(s *Sandbox) *plan {
	p := newPlan(112)
	r := &root{plan: p}
	if s.rooted {
		r.mountDisk(s, "")
	} else {
		r = enterSandboxRoot(p, s)
	}
	if len(s.sockets) > 0 {
		secondAddress(p)
	}
	passed := append(openSockets(p, s.sockets), r.upper...)
	outer := cmp.Or(s.uid, insideID)
	if b.root && !s.foreign {
		becomeUser(p, s.uid)
	}
	// A process that is not dumpable has a /proc/self that belongs to root, which it can't write.
	p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 1)
	p.do("unshare(user)", unix.SYS_UNSHARE, val(unix.CLONE_NEWUSER))
	mapUser(p, insideID, outer, outer)
	boundWatches(p)
	dropBounding(p, 0)
	p.prctl("PR_CAP_AMBIENT_CLEAR_ALL", unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	const locked = 0xff // SECBIT_*: root has no privileges, no ambient capabilities; and their locks
	p.prctl("PR_SET_SECUREBITS", unix.PR_SET_SECUREBITS, locked)
	// A change of user clears it, so it is set afterwards.
	p.prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	b.finishSetup(p, s, workspace, segments(), "/tmp", passed...)
	return p
}

// segments returns the path of the kernel's list of System V shared memory.
func segments() string {
	const list = "/proc/sysvipc/shm"
	if _, err := os.Stat(list); err != nil {
		return os.DevNull // a kernel without System V IPC
	}
	return list
}

// becomeUser gives up root permanently.
func becomeUser(p *plan, uid int) {
	p.do("setgroups(0)", unix.SYS_SETGROUPS, val(0), val(0))
	setUser(p, uid)
}

// setUser changes the user and group of the process permanently, and tests that the user has changed.
func setUser(p *plan, uid int) {
	p.do("setresgid", unix.SYS_SETRESGID, val(uid), val(uid), val(uid))
	p.do("setresuid", unix.SYS_SETRESUID, val(uid), val(uid), val(uid))
	p.want(int64(uid), "getuid", unix.SYS_GETUID)
}

// mapUser maps one user and group of the outer namespace to id in the new user namespace, and no others. setgroups
// has to be given up first: user_namespaces(7).
func mapUser(p *plan, id, uid, gid int) {
	p.write("/proc/self/setgroups", "deny", 0, 0)
	p.write("/proc/self/uid_map", fmt.Sprintf("%d %d 1", id, uid), 0, 0)
	p.write("/proc/self/gid_map", fmt.Sprintf("%d %d 1", id, gid), 0, 0)
}

// finishSetup ends every setup: PID 1 drops its remaining privileges and sends the ready message, with descriptors
// of the workspace, /proc, the list of shared memory segments, the disk, more (listening sockets and an overlay's
// upper directory), and the seccomp notifications, see notifies.
func (b *Backend) finishSetup(p *plan, s *Sandbox, workspace, segments, tmp string, more ...arg) {
	if s.cpus != nil {
		p.do("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, val(0), val(unsafe.Sizeof(*s.cpus)), value(p, *s.cpus))
	}
	p.prctl("PR_SET_NO_NEW_PRIVS", unix.PR_SET_NO_NEW_PRIVS, 1)
	dropCapabilities(p)
	work := p.get("open workspace", unix.SYS_OPENAT, cwd, p.str(workspace), val(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), val(0))
	proc := p.get("open proc", unix.SYS_OPENAT, cwd, p.str("/proc"), val(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC), val(0))
	shm := p.get("open "+segments, unix.SYS_OPENAT, cwd, p.str(segments), val(unix.O_RDONLY|unix.O_CLOEXEC), val(0))
	disk := p.get("open "+tmp, unix.SYS_OPENAT, cwd, p.str(tmp), val(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC), val(0))
	// No process in here may open our /proc/1/mem, for which sharing our uid would be enough.
	p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 0)
	passed := append([]arg{work, proc, shm, disk}, more...)
	passed = append(passed, loadFilter(p, s.filter, s.notifies())...)
	p.sendReady(passed...)
	for _, fd := range passed {
		p.do("close a passed descriptor", unix.SYS_CLOSE, fd)
	}
}

// dropBounding empties the bounding set, so that programs' file capabilities have no effect. errno is the error of
// a permitted failure.
func dropBounding(p *plan, errno int32) {
	drop := launch.Step{Store: -1, Want: launch.AnyResult, Errno: errno}
	for c := range capabilities() {
		p.add("prctl(PR_CAPBSET_DROP)", drop, unix.SYS_PRCTL, []arg{val(unix.PR_CAPBSET_DROP), val(c), val(0), val(0), val(0)})
	}
}

// capabilities returns the number of capabilities that the kernel knows: for others, prctl(2) returns EINVAL.
var capabilities = sync.OnceValue(func() (n int) {
	for ; n < 64; n++ {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0); err != nil {
			break
		}
	}
	return n
})

// dropCapabilities empties the effective, permitted and inheritable sets.
func dropCapabilities(p *plan) {
	const version3 = 0x20080522
	p.do("capset", unix.SYS_CAPSET, value(p, [2]uint32{version3}), p.bytes(make([]byte, 24)))
}

// enterSandboxRoot adds the files and mounts of sandbox s to the new root, and makes it the only one.
func enterSandboxRoot(p *plan, s *Sandbox) *root {
	r := &root{plan: p, made: map[string]bool{"/": true, "/dev": true, "/run": true, "/home": true, "/etc": true}, owned: s.owned,
		hide: s.backend.config.Hidden}
	r.mkdir(diskAt)
	r.mountDisk(s, newRoot)
	// Nobody can enter it any more: the root is read-only, and its owner's capabilities are not the program's.
	// Unmounting it instead would cost an RCU grace period, 0.1 ms.
	p.do("hide disk", unix.SYS_FCHMODAT, cwd, p.str(newRoot+hiddenDisk), val(0))
	r.addTrust(s.trust)
	for name, content := range s.etcFiles() {
		at := "/etc/" + name
		r.mkdir(path.Dir(at))
		r.write(newRoot+at, content, unix.O_CREAT|unix.O_TRUNC, 0o644)
	}
	for _, m := range s.mounts {
		r.bind(m.Host, m.Inside, !m.Write)
	}
	for at, target := range s.runtime.Links {
		r.link(target, at)
	}
	if s.guest != "" {
		r.bind(s.guest, backends.GuestPath, true)
	}
	enterRoot(p)
	return r
}

// mountDisk mounts the one file system that the program may fill: several directories are bind mounts of it, so that its
// size bounds them together. base is the path of the root that is being set up, "" inside it.
func (r *root) mountDisk(s *Sandbox, base string) {
	// Each inode costs about 1 KiB of kernel memory, which the memory cgroup counts.
	options := "mode=755,nr_inodes=256k,size=" + strconv.FormatInt(s.limits.Disk, 10)
	r.mountTmpfs(base+diskAt, options, unix.MS_NOSUID|unix.MS_NODEV)
	for _, d := range []struct {
		name, at string
		mode     uint32
	}{{"workspace", workspace, 0o755}, {"tmp", "/tmp", 0o1777}, {"var-tmp", "/var/tmp", 0o1777}, {"shm", "/dev/shm", 0o1777}} {
		if d.at == workspace && s.overlays() {
			r.overlay(s.host.Host, s.uid, s.idsOf(s.host.Host))
			continue
		}
		if d.at == workspace && s.host.Host != "" && !s.host.Propose {
			r.bind(s.host.Host, workspace, !s.host.Write)
			continue
		}
		if base != "" {
			r.mkdir(d.at)
		}
		dir := r.str(base, diskAt, "/", d.name)
		r.do("mkdir "+d.at, unix.SYS_MKDIRAT, cwd, dir, val(0o755))
		r.do("chmod "+d.at, unix.SYS_FCHMODAT, cwd, dir, val(d.mode))
		if s.uid != 0 {
			r.do("chown "+d.at, unix.SYS_FCHOWNAT, cwd, dir, val(s.uid), val(s.uid), val(0))
		}
		r.do("mount "+d.at, unix.SYS_MOUNT, dir, r.str(base, d.at), val(0), val(unix.MS_BIND), val(0))
	}
	if s.home != "" { // only if the root is new
		r.mkdir(s.home)
		r.do("mount "+s.home, unix.SYS_MOUNT, r.str(base, workspace), r.str(base, s.home), val(0), val(unix.MS_BIND), val(0))
	}
}

// etcFiles are this sandbox's additional or replaced files of /etc.
func (s *Sandbox) etcFiles() map[string]string {
	if s.home == "" {
		return s.etc
	}
	files := backends.Spec{Home: s.home}.EtcFiles(insideID, insideID)
	maps.Copy(files, s.etc)
	return files
}

// joinCgroups makes the process that executes p join its v1 cgroups. clone3 joins a v2 cgroup.
func joinCgroups(g *cgroup.Group, p *plan) {
	if g.V2() {
		return
	}
	for _, f := range g.JoinFiles() {
		p.want(1, "join cgroup", unix.SYS_WRITE, p.file(f), p.str("0"), val(1))
	}
}

// Namespaces returns the namespaces of a hardened PID 1, as CLONE_* flags.
func (b *Backend) Namespaces() uint64 {
	if b.root {
		return namespaces
	}
	return namespaces | unix.CLONE_NEWUSER
}

// containerSetup returns the plan of PID 1's substitute inside a container (Config.Inside). As in the profile
// "landlock", it makes no namespaces, and the substitute is a subreaper; but the surrounding namespaces are the
// container's own, so that it may listen there, and its directories are those of a hardened sandbox.
func (b *Backend) containerSetup(s *Sandbox) *plan {
	p := newPlan(112)
	p.prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)
	sockets := openSockets(p, s.sockets)
	b.finishSetup(p, s, workspace, segments(), "/tmp", sockets...)
	return p
}

// loadFilter makes PID 1 load the sandbox's seccomp filter, which all its programs inherit: each filter costs the
// host memory and a lock that all processes share. If notifies is true, it returns the descriptor of the
// notifications.
func loadFilter(p *plan, code []byte, notifies bool) (listener []arg) {
	prog := value(p, [2]uint64{uint64(len(code) / 8), 0})
	p.addFixup(prog.v+8, p.bytes(code).v)
	if notifies {
		listener = []arg{p.get("seccomp", unix.SYS_SECCOMP, val(unix.SECCOMP_SET_MODE_FILTER), val(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER), prog)}
	} else {
		p.want(0, "seccomp", unix.SYS_SECCOMP, val(unix.SECCOMP_SET_MODE_FILTER), val(0), prog)
	}
	return listener
}

// checkFilter tests that a program's process has inherited the filter, and that the filter works.
func checkFilter(p *plan, noInternet bool) {
	p.want(2, "seccomp self-test", unix.SYS_PRCTL, val(unix.PR_GET_SECCOMP), val(0), val(0), val(0), val(0))
	p.refused(unix.EPERM, "seccomp self-test", unix.SYS_UNSHARE, val(unix.CLONE_NEWUSER))
	if noInternet {
		for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
			p.refused(unix.EAFNOSUPPORT, "seccomp self-test of sockets", unix.SYS_SOCKET, val(family), val(unix.SOCK_STREAM), val(0))
			p.refused(unix.EAFNOSUPPORT, "seccomp self-test of sockets", unix.SYS_SOCKET, val(family), val(unix.SOCK_DGRAM), val(0))
		}
	}
}
