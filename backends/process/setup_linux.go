package process

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// Inside, the program is user 1000 in group 1000, whoever it is outside.
const insideID = 1000

// namespaces are those that a hardened sandbox is born in. The cgroup namespace comes later, when it has
// been put into its cgroup; the user namespace that keeps the program from the mounts comes last.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWTIME

// prepare is the plan for what all hardened sandboxes have in common. PID 1 follows it as soon as it
// is born, which may be long before it is known what sandbox it will be.
//
// Started by root, the namespaces are root's. Started by a user, an outer user namespace in which
// that user is root owns them.
func (b *Backend) prepare(g *cgroup) *plan {
	p := newPlan()
	g.join(p)
	if b.root {
		p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 0)
	} else {
		mapUser(p, 0, os.Geteuid(), os.Getegid())
	}
	p.do("unshare(cgroup)", unix.SYS_UNSHARE, val(unix.CLONE_NEWCGROUP))
	name := "sandbox"
	p.do("sethostname", unix.SYS_SETHOSTNAME, p.str(name), val(len(name)))
	loopbackUp(p)
	furnish(p)
	p.ready()
	return p
}

// setup is the plan that makes a prepared PID 1 that of sandbox s, and takes its privileges away.
//
// Root's PID 1 becomes an unprivileged user now. Root's or a user's, the program then lives in a
// second, inner user namespace, where even a process that regained all capabilities would have
// none over mounts, network or other namespaces.
func (b *Backend) setup(s *sandbox) *plan {
	p := newPlan()
	moveIn(p, s)
	outer := 0
	if b.root {
		outer = s.uid
		becomeUser(p, s.uid)
	}
	// A process that is not dumpable has a /proc/self that belongs to root, where it may not write.
	p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 1)
	p.do("unshare(user)", unix.SYS_UNSHARE, val(unix.CLONE_NEWUSER))
	mapUser(p, insideID, outer, outer)
	dropBounding(p)
	p.prctl("PR_CAP_AMBIENT_CLEAR_ALL", unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	const locked = 0xff // SECBIT_*: root is nobody special, no ambient capabilities; and their locks
	p.prctl("PR_SET_SECUREBITS", unix.PR_SET_SECUREBITS, locked)
	// Changing users clears it, so it comes after that.
	p.prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	segments := "/proc/sysvipc/shm"
	if _, err := os.Stat(segments); err != nil {
		segments = os.DevNull // a kernel without System V IPC
	}
	settle(p, workspace, segments)
	return p
}

// becomeUser leaves root for good.
func becomeUser(p *plan, uid int) {
	p.do("setgroups(0)", unix.SYS_SETGROUPS, val(0), val(0))
	p.do("setresgid", unix.SYS_SETRESGID, val(uid), val(uid), val(uid))
	p.do("setresuid", unix.SYS_SETRESUID, val(uid), val(uid), val(uid))
	p.want(int64(uid), "getuid", unix.SYS_GETUID)
}

// mapUser makes outside's user and group be id, the only ones that exist, in our new user namespace.
// setgroups has to be given up first: user_namespaces(7).
func mapUser(p *plan, id, uid, gid int) {
	p.write("/proc/self/setgroups", "deny", 0, 0)
	p.write("/proc/self/uid_map", fmt.Sprintf("%d %d 1", id, uid), 0, 0)
	p.write("/proc/self/gid_map", fmt.Sprintf("%d %d 1", id, gid), 0, 0)
}

// loopbackUp brings up the only interface of the empty network namespace.
func loopbackUp(p *plan) {
	type ifreq struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	r := ifreq{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(r.name[:], "lo")
	fd := p.get("socket(loopback)", unix.SYS_SOCKET, val(unix.AF_INET), val(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), val(0))
	p.do("loopback up", unix.SYS_IOCTL, fd, val(unix.SIOCSIFFLAGS), value(p, r))
	p.do("close loopback", unix.SYS_CLOSE, fd)
}

// settle ends every setup: PID 1 gives up what it needs no more and tells the server that it is
// ready, handing over the workspace, its view of processes and of shared memory segments.
func settle(p *plan, workspace, segments string) {
	p.prctl("PR_SET_NO_NEW_PRIVS", unix.PR_SET_NO_NEW_PRIVS, 1)
	dropCapabilities(p)
	work := p.get("open workspace", unix.SYS_OPENAT, cwd, p.str(workspace), val(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), val(0))
	proc := p.get("open proc", unix.SYS_OPENAT, cwd, p.str("/proc"), val(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC), val(0))
	shm := p.get("open "+segments, unix.SYS_OPENAT, cwd, p.str(segments), val(unix.O_RDONLY|unix.O_CLOEXEC), val(0))
	p.ready(work, proc, shm)
	p.do("close workspace", unix.SYS_CLOSE, work)
	p.do("close proc", unix.SYS_CLOSE, proc)
	p.do("close segments", unix.SYS_CLOSE, shm)
	// Last: nothing in here may open our /proc/1/mem, and an uid alone would be enough for that.
	p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 0)
}

// dropBounding empties the bounding set, so that no program's file capabilities count. More than
// the kernel knows is EINVAL, and the reading back sees whether something stayed.
func dropBounding(p *plan) {
	for c := range 64 {
		p.try("prctl(PR_CAPBSET_DROP)", unix.SYS_PRCTL, val(unix.PR_CAPBSET_DROP), val(c), val(0), val(0), val(0))
	}
}

// dropCapabilities empties the sets that count.
func dropCapabilities(p *plan) {
	const version3 = 0x20080522
	p.do("capset", unix.SYS_CAPSET, value(p, [2]uint32{version3}), p.bytes(make([]byte, 24)))
}

// ready sends launch.Ready with the descriptors in the given slots.
func (p *plan) ready(fds ...arg) {
	m := value(p, launch.Message{Kind: launch.Ready})
	if len(fds) == 0 {
		p.want(messageSize, "say ready", unix.SYS_SENDTO, slot(launch.SlotControl), m, val(messageSize), val(unix.MSG_NOSIGNAL), val(0), val(0))
		return
	}
	iov := value(p, [2]uint64{0, uint64(messageSize)})
	p.point(iov.v, m.v)
	control := value(p, unix.Cmsghdr{Len: uint64(unix.CmsgLen(4 * len(fds))), Level: unix.SOL_SOCKET, Type: unix.SCM_RIGHTS})
	room := p.bytes(make([]byte, unix.CmsgSpace(4*len(fds))-unix.SizeofCmsghdr))
	for i, fd := range fds {
		p.poke(arg{v: room.v + 4*uint64(i)}, fd)
	}
	// struct msghdr: name, namelen, iov, iovlen, control, controllen, flags
	h := value(p, [7]uint64{3: 1, 5: uint64(unix.CmsgSpace(4 * len(fds)))})
	p.point(h.v+16, iov.v)
	p.point(h.v+32, control.v)
	p.want(messageSize, "say ready", unix.SYS_SENDMSG, slot(launch.SlotControl), h, val(unix.MSG_NOSIGNAL))
}

// Folders of the sandbox.
const (
	workspace = "/workspace"
	// newRoot is where the new root is furnished. Any folder of the host would do, but what lies
	// below it can't be a mount's source any more, and nothing below /proc ever is one.
	newRoot = "/proc"
)

// furnish builds a root folder from nothing, with what all sandboxes see.
func furnish(p *plan) {
	p.do("make mounts private", unix.SYS_MOUNT, val(0), p.str("/"), val(0), val(unix.MS_REC|unix.MS_PRIVATE), val(0))
	r := &root{plan: p, made: map[string]bool{"/": true}}
	p.tmpfs(newRoot, "mode=755,size=4m,nr_inodes=16k", unix.MS_NOSUID|unix.MS_NODEV)
	r.system()
	r.etc()
	r.devices()
	r.mkdir("/proc")
	p.do("mount /proc", unix.SYS_MOUNT, p.str("proc"), p.str(newRoot+"/proc"), p.str("proc"),
		val(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC), val(0))
}

// moveIn adds what is sandbox s's own, and makes the new root the only one.
func moveIn(p *plan, s *sandbox) {
	r := &root{plan: p, made: map[string]bool{"/": true, "/dev": true, "/run": true}, owned: s.owned}
	r.disk(s)
	for _, m := range s.mounts {
		r.bind(m.Host, m.Inside, !m.Write)
	}
	for at, target := range s.runtime.Links {
		r.link(target, at)
	}
	p.attr(newRoot, 0, unix.MOUNT_ATTR_RDONLY)
	p.do("chdir "+newRoot, unix.SYS_CHDIR, p.str(newRoot))
	// pivot_root(".", ".") puts the old root on top of the new one, where umount takes it off: pivot_root(2).
	p.do("pivot_root", unix.SYS_PIVOT_ROOT, p.str("."), p.str("."))
	p.do("umount old root", unix.SYS_UMOUNT2, p.str("."), val(unix.MNT_DETACH))
	p.do("chdir /", unix.SYS_CHDIR, p.str("/"))
}

func (p *plan) tmpfs(at, options string, flags uintptr) {
	p.do("mount tmpfs "+at, unix.SYS_MOUNT, p.str("sandbox"), p.str(at), p.str("tmpfs"), val(flags), p.str(options))
}

// attr sets attributes of the mount at path; AT_RECURSIVE reaches the mounts below it.
func (p *plan) attr(at string, flags int, set uint64) {
	a := unix.MountAttr{Attr_set: set}
	p.do("mount_setattr "+at, unix.SYS_MOUNT_SETATTR, cwd, p.str(at), val(flags), value(p, a), val(unsafe.Sizeof(a)))
}

// root furnishes newRoot. Its paths are those that the program will see.
type root struct {
	*plan
	made  map[string]bool
	owned []owned
}

func (r *root) mkdir(dir string) {
	if r.made[dir] {
		return
	}
	r.mkdir(path.Dir(dir))
	r.made[dir] = true
	r.add("mkdir "+dir, launch.Step{Store: -1, Want: launch.AnyResult, Errno: launch.AnyErrno},
		unix.SYS_MKDIRAT, []arg{cwd, r.str(newRoot + dir), val(0o755)})
}

func (r *root) link(target, at string) {
	r.mkdir(path.Dir(at))
	r.do("symlink "+at, unix.SYS_SYMLINKAT, r.str(target), cwd, r.str(newRoot+at))
}

// bind shows a path of the host, with the mounts below it, which a user namespace will not let be left out.
func (r *root) bind(host, at string, readOnly bool) {
	info, err := os.Stat(host)
	if err == nil && !info.IsDir() {
		r.mkdir(path.Dir(at))
		r.write(newRoot+at, "", unix.O_CREAT, 0o444)
	} else {
		r.mkdir(at)
	}
	for _, o := range r.owned {
		if o.host == host && !readOnly {
			r.bindOwned(o, at)
			return
		}
	}
	r.do("mount "+host, unix.SYS_MOUNT, r.str(host), r.str(newRoot+at), val(0), val(unix.MS_BIND|unix.MS_REC), val(0))
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if readOnly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	r.attr(newRoot+at, unix.AT_RECURSIVE, set)
}

// same shows a host path at the same place: a link as a link, a small file as a copy (a mount
// costs as much as copying about that), all else as a read-only mount.
func (r *root) same(at string) {
	const small = 48 << 10
	info, err := os.Lstat(at)
	if err != nil {
		return
	}
	switch mode := info.Mode(); {
	case mode&os.ModeSymlink != 0:
		if target, err := os.Readlink(at); err == nil {
			r.link(target, at)
		}
	case mode.IsRegular() && info.Size() <= small:
		if content, err := os.ReadFile(at); err == nil {
			r.mkdir(path.Dir(at))
			r.write(newRoot+at, string(content), unix.O_CREAT, 0o644)
		}
	default:
		r.bind(at, at, true)
	}
}

// system shows the operating system's own folders.
func (r *root) system() {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		r.same(dir)
	}
	for _, dir := range []string{"/home", "/mnt", "/opt", "/root", "/run", "/srv", "/var"} {
		r.mkdir(dir)
	}
	r.link("/tmp", "/var/tmp")
}

// disk mounts the one file system that the program may fill: three folders of it are shown, so
// that its size bounds them together.
func (r *root) disk(s *sandbox) {
	const hidden, at = "/run/disk", "/run/disk/all"
	r.mkdir(at)
	// Each inode costs about 1 KiB of kernel memory, which the memory cgroup counts.
	options := "mode=755,nr_inodes=256k,size=" + strconv.FormatInt(s.limits.Disk, 10)
	r.tmpfs(newRoot+at, options, unix.MS_NOSUID|unix.MS_NODEV)
	for _, d := range []struct {
		name, at string
		mode     uint32
	}{{"workspace", workspace, 0o755}, {"tmp", "/tmp", 0o1777}, {"shm", "/dev/shm", 0o1777}} {
		if d.at == workspace && s.host.Host != "" {
			r.bind(s.host.Host, workspace, !s.host.Write)
			continue
		}
		r.mkdir(d.at)
		dir := newRoot + at + "/" + d.name
		r.do("mkdir "+d.at, unix.SYS_MKDIRAT, cwd, r.str(dir), val(0o755))
		r.do("chmod "+d.at, unix.SYS_FCHMODAT, cwd, r.str(dir), val(d.mode))
		if s.uid != 0 {
			r.do("chown "+d.at, unix.SYS_FCHOWNAT, cwd, r.str(dir), val(s.uid), val(s.uid), val(0))
		}
		r.do("mount "+d.at, unix.SYS_MOUNT, r.str(dir), r.str(newRoot+d.at), val(0), val(unix.MS_BIND), val(0))
	}
	// Nobody passes here any more: the root is read-only, and its owner's capabilities are not the
	// program's. Unmounting it instead would cost an RCU grace period, 0.1 ms.
	r.do("hide disk", unix.SYS_FCHMODAT, cwd, r.str(newRoot+hidden), val(0))
}

// devices makes a minimal /dev.
func (r *root) devices() {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		r.device(name)
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		r.link(target, "/dev/"+name)
	}
	r.mkdir("/dev/pts")
	r.do("mount /dev/pts", unix.SYS_MOUNT, r.str("devpts"), r.str(newRoot+"/dev/pts"), r.str("devpts"),
		val(unix.MS_NOSUID|unix.MS_NOEXEC), r.str("newinstance,ptmxmode=0666,mode=620"))
}

// device binds one of the host's device nodes, without nodev: it would not open.
func (r *root) device(name string) {
	at := "/dev/" + name
	r.mkdir("/dev")
	r.write(newRoot+at, "", unix.O_CREAT, 0o666)
	r.do("mount "+at, unix.SYS_MOUNT, r.str(at), r.str(newRoot+at), val(0), val(unix.MS_BIND), val(0))
}

// etcNames are files and folders of /etc that programs need and that say nothing about the host
// or its users. Some carry a version, such as Debian's /etc/python3.11, into which the standard
// library has links.
var etcNames = sync.OnceValue(func() []string {
	names := []string{
		"alternatives", "ld.so.cache", "localtime", "timezone", "ssl/certs", "ssl/openssl.cnf", "pki/tls",
		"crypto-policies", "mime.types", "protocols", "services", "fonts", "R",
	}
	for _, pattern := range []string{"/etc/python3.*", "/etc/java-*"} {
		found, _ := filepath.Glob(pattern)
		for _, name := range found {
			names = append(names, filepath.Base(name))
		}
	}
	return names
})

// etc shows them, and files of our own.
func (r *root) etc() {
	r.mkdir("/etc")
	for _, name := range etcNames() {
		r.same("/etc/" + name)
	}
	for name, content := range etcFiles {
		r.write(newRoot+"/etc/"+name, content, unix.O_CREAT, 0o644)
	}
}

var etcFiles = map[string]string{
	"passwd":        "root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
	"group":         "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n",
	"hostname":      "sandbox\n",
	"hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	"resolv.conf":   "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
	"machine-id":    "",
}

// mountsOf are the mounts a sandbox shows besides the system's folders: the interpreter's own, then the request's.
func mountsOf(prefixes []string, asked []backends.Mount) []backends.Mount {
	var mounts []backends.Mount
	for _, p := range prefixes {
		mounts = append(mounts, backends.Mount{Host: p, Inside: p})
	}
	return append(mounts, asked...)
}
