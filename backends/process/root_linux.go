package process

import (
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

// Folders of the sandbox.
const (
	workspace = backends.Workspace
	// newRoot is where the new root is furnished. Any folder of the host would do, but what lies
	// below it can't be a mount's source any more, and nothing below /proc ever is one.
	newRoot = "/proc"
)

// setUpRoot builds a root folder from nothing, with what all sandboxes see, except for those file systems
// that each has of its own: proc and pts.
func setUpRoot(p *plan) *root {
	p.do("make mounts private", unix.SYS_MOUNT, val(0), p.str("/"), val(0), val(unix.MS_REC|unix.MS_PRIVATE), val(0))
	r := &root{plan: p, made: map[string]bool{"/": true}}
	p.tmpfs(newRoot, "mode=755,size=4m,nr_inodes=16k", unix.MS_NOSUID|unix.MS_NODEV)
	r.system()
	r.etc()
	r.devices()
	r.mkdir("/proc")
	return r
}

// proc mounts the /proc of the PID namespace below the folder at.
func (p *plan) proc(at, options string) {
	p.do("mount /proc", unix.SYS_MOUNT, p.str("proc"), p.str(at+"/proc"), p.str("proc"),
		val(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC), p.str(options))
}

// maskProc covers what /proc says of the keys of the host's users, in whatever namespace it is read.
func (p *plan) maskProc(at string) {
	for _, name := range []string{"/proc/keys", "/proc/key-users"} {
		if _, err := os.Stat(name); err == nil { // or else the kernel has none
			p.do("mask "+name, unix.SYS_MOUNT, p.str(at+"/dev/null"), p.str(at+name), val(0), val(unix.MS_BIND), val(0))
		}
	}
}

// pts mounts terminals that are the sandbox's alone, and few of those that the host has in all (kernel.pty.max).
func (p *plan) pts(at string) {
	p.do("mount /dev/pts", unix.SYS_MOUNT, p.str("devpts"), p.str(at+"/dev/pts"), p.str("devpts"),
		val(unix.MS_NOSUID|unix.MS_NOEXEC), p.str("newinstance,ptmxmode=0666,mode=620,max=64"))
}

// moveIn adds what is sandbox s's own, and makes the new root the only one.
func moveIn(p *plan, s *sandbox) {
	r := &root{plan: p, made: map[string]bool{"/": true, "/dev": true, "/run": true}, owned: s.owned, hide: s.backend.config.Hidden}
	r.mkdir(diskAt)
	r.disk(s, newRoot)
	// Nobody passes here any more: the root is read-only, and its owner's capabilities are not the
	// program's. Unmounting it instead would cost an RCU grace period, 0.1 ms.
	p.do("hide disk", unix.SYS_FCHMODAT, cwd, p.str(newRoot+hiddenDisk), val(0))
	r.trust(s.trust)
	for name, content := range s.etc {
		at := "/etc/" + name
		r.mkdir(path.Dir(at))
		r.write(newRoot+at, content, unix.O_CREAT, 0o644)
	}
	for _, m := range s.mounts {
		r.bind(m.Host, m.Inside, !m.Write)
	}
	for at, target := range s.runtime.Links {
		r.link(target, at)
	}
	enter(p)
}

// enter makes the furnished root the only one.
func enter(p *plan) {
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
	made   map[string]bool
	owned  []owned
	states []pathState // at what is shown of the host

	hide   []string // Config.Hidden
	hidden *backends.Hidden
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
	r.do("mount "+host+" at "+at, unix.SYS_MOUNT, r.str(host), r.str(newRoot+at), val(0), val(unix.MS_BIND|unix.MS_REC), val(0))
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if readOnly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	r.attr(newRoot+at, unix.AT_RECURSIVE, set)
	r.cover(host, at)
}

// same shows a host path at the same place: a link as a link, a small file as a copy (a mount
// costs as much as copying about that), all else as a read-only mount.
func (r *root) same(at string) {
	const small = 48 << 10
	seen := stateOf(at, os.Lstat)
	r.states = append(r.states, seen)
	info := seen.info
	if info == nil {
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
	for _, dir := range backends.SystemDirs {
		r.same(dir)
	}
	for _, dir := range []string{"/home", "/mnt", "/opt", "/root", "/run", "/srv", "/var"} {
		r.mkdir(dir)
	}
}

// diskAt is where a sandbox's own file system is mounted. Folders of it are shown elsewhere, and the
// folder above is closed.
const (
	diskAt     = hiddenDisk + "/all"
	hiddenDisk = "/run/disk"
)

// ownDirs are where.
var ownDirs = []string{workspace, "/tmp", "/var/tmp", "/dev/shm"}

// disk mounts the one file system that the program may fill: folders of it are shown, so that its size
// bounds them together. base is where the root is furnished, "" where it is the root already.
func (r *root) disk(s *sandbox, base string) {
	// Each inode costs about 1 KiB of kernel memory, which the memory cgroup counts.
	options := "mode=755,nr_inodes=256k,size=" + strconv.FormatInt(s.limits.Disk, 10)
	r.tmpfs(base+diskAt, options, unix.MS_NOSUID|unix.MS_NODEV)
	for _, d := range []struct {
		name, at string
		mode     uint32
	}{{"workspace", workspace, 0o755}, {"tmp", "/tmp", 0o1777}, {"var-tmp", "/var/tmp", 0o1777}, {"shm", "/dev/shm", 0o1777}} {
		if d.at == workspace && s.host.Host != "" {
			r.bind(s.host.Host, workspace, !s.host.Write)
			continue
		}
		if base != "" {
			r.mkdir(d.at)
		}
		dir := base + diskAt + "/" + d.name
		r.do("mkdir "+d.at, unix.SYS_MKDIRAT, cwd, r.str(dir), val(0o755))
		r.do("chmod "+d.at, unix.SYS_FCHMODAT, cwd, r.str(dir), val(d.mode))
		if s.uid != 0 {
			r.do("chown "+d.at, unix.SYS_FCHOWNAT, cwd, r.str(dir), val(s.uid), val(s.uid), val(0))
		}
		r.do("mount "+d.at, unix.SYS_MOUNT, r.str(dir), r.str(base+d.at), val(0), val(unix.MS_BIND), val(0))
	}
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
}

// device binds one of the host's device nodes, without nodev: it would not open.
func (r *root) device(name string) {
	at := "/dev/" + name
	r.mkdir("/dev")
	r.write(newRoot+at, "", unix.O_CREAT, 0o666)
	r.do("mount "+at, unix.SYS_MOUNT, r.str(at), r.str(newRoot+at), val(0), val(unix.MS_BIND), val(0))
	// A device can be written to all the same; its owner, rights and times are the host's.
	r.attr(newRoot+at, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}

// etcNames are files and folders of /etc that programs need and that say nothing about the host
// or its users. Some carry a version, such as Debian's /etc/python3.11, into which the standard
// library has links.
var etcNames = sync.OnceValue(func() []string {
	names := []string{
		"alternatives", "ld.so.cache", "localtime", "timezone", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls",
		"pki/ca-trust/extracted", "crypto-policies", "matplotlibrc", "mime.types", "protocols", "services", "fonts", "R",
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
	for _, files := range []map[string]string{etcFiles, backends.Etc(insideID, insideID)} {
		for name, content := range files {
			r.write(newRoot+"/etc/"+name, content, unix.O_CREAT, 0o644)
		}
	}
}

var etcFiles = map[string]string{
	"hostname":      "sandbox\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	"machine-id":    "",
}
