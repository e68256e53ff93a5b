package process

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// Directories of the sandbox.
const (
	workspace = backends.Workspace
	// newRoot is where the new root is set up. Any directory of the host would do, but the mounts below it can't be
	// a mount's source any more, and mounts below /proc never are.
	newRoot = "/proc"
)

// setUpRoot builds a root directory from nothing, with the files and mounts of all sandboxes, except proc and pts,
// which each sandbox mounts for itself. hide is Config.Hidden.
func setUpRoot(p *plan, hide []string) *root {
	p.do("make mounts private", unix.SYS_MOUNT, val(0), p.str("/"), val(0), val(unix.MS_REC|unix.MS_PRIVATE), val(0))
	r := &root{plan: p, made: map[string]bool{"/": true}, hide: hide}
	p.mountTmpfs(newRoot, "mode=755,size=4m,nr_inodes=16k", unix.MS_NOSUID|unix.MS_NODEV)
	r.showSystem()
	r.addEtc()
	r.addDevices()
	r.mkdir("/proc")
	r.mkdir(limitsAt)
	return r
}

// mountProc mounts the PID namespace's /proc below the directory at.
func (p *plan) mountProc(at, options string) {
	p.do("mount /proc", unix.SYS_MOUNT, p.str("proc"), p.str(at, "/proc"), p.str("proc"),
		val(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC), p.str(options))
}

// maskProc covers the lists of the host users' keys in /proc, which are the same in all namespaces.
func (p *plan) maskProc(at string) {
	for _, name := range []string{"/proc/keys", "/proc/key-users"} {
		if _, err := os.Stat(name); err == nil { // otherwise the kernel has no such list
			p.do("mask "+name, unix.SYS_MOUNT, p.str(at, "/dev/null"), p.str(at, name), val(0), val(unix.MS_BIND), val(0))
		}
	}
}

// enterRoot makes the new root the only one.
func enterRoot(p *plan) {
	p.setMountAttr(newRoot, 0, unix.MOUNT_ATTR_RDONLY)
	p.do("chdir "+newRoot, unix.SYS_CHDIR, p.str(newRoot))
	// pivot_root(".", ".") stacks the old root on top of the new one, where umount removes it: pivot_root(2).
	p.do("pivot_root", unix.SYS_PIVOT_ROOT, p.str("."), p.str("."))
	p.do("umount old root", unix.SYS_UMOUNT2, p.str("."), val(unix.MNT_DETACH))
	p.do("chdir /", unix.SYS_CHDIR, p.str("/"))
}

// root sets up newRoot. Its paths are the program's.
type root struct {
	*plan
	made   map[string]bool
	owned  []owned
	states []pathState // of the visible host paths
	upper  []arg       // slot of an overlay's upper directory, if there is one

	hide   []string // Config.Hidden
	hidden *backends.Hidden
}

// mkdir makes a directory of the new root and its parents, each once. It ignores failures: the steps that use the
// directory report them.
func (r *root) mkdir(dir string) {
	if r.made[dir] {
		return
	}
	r.mkdir(path.Dir(dir))
	r.made[dir] = true
	r.try("mkdir "+dir, unix.SYS_MKDIRAT, cwd, r.str(newRoot, dir), val(0o755))
}

// link makes a symbolic link to target at a path of the new root.
func (r *root) link(target, at string) {
	r.mkdir(path.Dir(at))
	r.do("symlink "+at, unix.SYS_SYMLINKAT, r.str(target), cwd, r.str(newRoot, at))
}

// bind mounts a path of the host including the mounts below it: a user namespace does not permit leaving them out,
// which would show the files that they hide on the host.
func (r *root) bind(host, at string, readOnly bool) {
	if info, err := os.Stat(host); err == nil && !info.IsDir() {
		r.mkdir(path.Dir(at))
		r.write(newRoot+at, "", unix.O_CREAT, 0o444)
	} else {
		r.mkdir(at)
	}
	for _, o := range r.owned {
		if o.host == host && !readOnly {
			r.bindOwned(o, at)
			r.coverHidden(host, at)
			return
		}
	}
	r.do("mount "+host+" at "+at, unix.SYS_MOUNT, r.str(host), r.str(newRoot, at), val(0), val(unix.MS_BIND|unix.MS_REC), val(0))
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if readOnly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	r.setMountAttr(newRoot+at, unix.AT_RECURSIVE, set)
	r.coverHidden(host, at)
}

// showAtSamePath shows a host path at the same place: a link as a link, a small file as a copy (a mount costs about as much),
// and other files as a read-only mount.
func (r *root) showAtSamePath(at string) {
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

// showSystem mounts the operating system's own directories.
func (r *root) showSystem() {
	for _, dir := range backends.SystemDirs {
		r.showAtSamePath(dir)
	}
	for _, dir := range []string{"/home", "/mnt", "/opt", "/root", "/run", "/srv", "/sys", "/var"} {
		r.mkdir(dir)
	}
}

// diskAt is the mount point of a sandbox's own file system. Its directories are mounted elsewhere, and the parent
// directory is closed.
const (
	diskAt     = hiddenDisk + "/all"
	hiddenDisk = "/run/disk"
)

// ownDirs are the mount points of the directories of a sandbox's own file system.
var ownDirs = []string{workspace, "/tmp", "/var/tmp", "/dev/shm"}

// addDevices makes a minimal /dev.
func (r *root) addDevices() {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		r.bindDevice(name)
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		r.link(target, "/dev/"+name)
	}
	r.mkdir("/dev/pts")
}

// bindDevice binds one of the host's device nodes without nodev, so that it can be opened.
func (r *root) bindDevice(name string) {
	at := "/dev/" + name
	r.mkdir("/dev")
	r.write(newRoot+at, "", unix.O_CREAT, 0o666)
	r.do("mount "+at, unix.SYS_MOUNT, r.str(at), r.str(newRoot, at), val(0), val(unix.MS_BIND), val(0))
	// A device can be written nevertheless; its owner, mode and times are the host's.
	r.setMountAttr(newRoot+at, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}

// etcNames are files and directories of /etc that programs need and that reveal nothing about the host or its
// users. Some names contain a version, such as Debian's /etc/python3.11, a target of links of the standard library.
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

// addEtc mounts etcNames, and adds generated files.
func (r *root) addEtc() {
	r.mkdir("/etc")
	for _, name := range etcNames() {
		r.showAtSamePath("/etc/" + name)
	}
	for _, files := range []map[string]string{etcFiles, backends.Spec{}.EtcFiles(insideID, insideID)} {
		for name, content := range files {
			r.write(newRoot+"/etc/"+name, content, unix.O_CREAT, 0o644)
		}
	}
}

// etcFiles are files of /etc with a fixed content, by name, in each of our root directories.
var etcFiles = map[string]string{
	"hostname":      "sandbox\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	"machine-id":    "",
}

// mapOwner begins the name of a step that some file systems do not support.
const mapOwner = "map the owner of "

// bindOwned mounts a host path with its owner mapped. Only a detached mount accepts such a map. The mounts below it
// keep their owners and are read-only: they may be of any kind, and contain anything.
func (r *root) bindOwned(o owned, at string) {
	tree := slot(r.free)
	r.set(tree, "open_tree "+o.host, unix.SYS_OPEN_TREE, cwd, r.str(o.host),
		val(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE))
	all := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	r.do("mount_setattr "+o.host, unix.SYS_MOUNT_SETATTR, tree, r.str(""),
		val(unix.AT_EMPTY_PATH|unix.AT_RECURSIVE), value(r.plan, all), val(unsafe.Sizeof(all)))
	top := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP}
	var on unix.Statfs_t
	if unix.Statfs(o.host, &on) == nil && on.Flags&unix.ST_RDONLY == 0 {
		top.Attr_clr = unix.MOUNT_ATTR_RDONLY
	}
	attr := value(r.plan, top)
	userns := uint64(unsafe.Offsetof(unix.MountAttr{}.Userns_fd))
	r.poke(arg{launch.Address, attr.v + userns}, r.file(o.ids))
	r.do(mapOwner+o.host, unix.SYS_MOUNT_SETATTR, tree, r.str(""), val(unix.AT_EMPTY_PATH), attr, val(unsafe.Sizeof(unix.MountAttr{})))
	r.do("move_mount "+at, unix.SYS_MOVE_MOUNT, tree, r.str(""), cwd, r.str(newRoot, at), val(unix.MOVE_MOUNT_F_EMPTY_PATH))
	r.do("close "+o.host, unix.SYS_CLOSE, tree)
}

// overlay mounts an overlay of a host directory as the workspace: programs write to the sandbox's own file system.
// ids maps the directory's owner to uid, if root starts the sandbox.
func (r *root) overlay(host string, uid int, ids *os.File) {
	const lower, upper, work = newRoot + hiddenDisk + "/lower", newRoot + diskAt + "/workspace", newRoot + diskAt + "/overlay"
	r.mkdir(workspace)
	r.mkdir(hiddenDisk + "/lower")
	for _, dir := range []string{upper, work} {
		r.do("mkdir "+dir, unix.SYS_MKDIRAT, cwd, r.str(dir), val(0o755))
		if uid != 0 {
			r.do("chown "+dir, unix.SYS_FCHOWNAT, cwd, r.str(dir), val(uid), val(uid), val(0))
		}
	}
	if info, err := os.Stat(host); err == nil {
		r.do("chmod "+upper, unix.SYS_FCHMODAT, cwd, r.str(upper), val(info.Sys().(*syscall.Stat_t).Mode&0o7777))
	}
	// At a path of our own, a directory whose name contains a colon, a comma or a backslash needs no escapes.
	tree := slot(r.free)
	r.set(tree, "open_tree "+host, unix.SYS_OPEN_TREE, cwd, r.str(host), val(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY}
	// without xino, link(2) gives a file another inode number, which git clone refuses
	options := "redirect_dir=nofollow,metacopy=off,index=off,xino=on"
	if ids != nil {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
	} else { // root's marks are trusted.overlay.*, which no program can write
		options += ",userxattr"
		name := r.str("user.overlay.probe") // otherwise a directory that is removed and made again would show its old contents
		r.do("setxattr "+upper, unix.SYS_SETXATTR, r.str(upper), name, r.str("y"), val(1), val(0))
		r.do("removexattr "+upper, unix.SYS_REMOVEXATTR, r.str(upper), name)
	}
	attrs := value(r.plan, attr)
	if ids != nil {
		r.poke(arg{v: attrs.v + uint64(unsafe.Offsetof(attr.Userns_fd))}, r.file(ids))
	}
	r.do(mapOwner+host, unix.SYS_MOUNT_SETATTR, tree, r.str(""), val(unix.AT_EMPTY_PATH), attrs, val(unsafe.Sizeof(attr)))
	r.do("move_mount "+host, unix.SYS_MOVE_MOUNT, tree, r.str(""), cwd, r.str(lower), val(unix.MOVE_MOUNT_F_EMPTY_PATH))
	r.do("close "+host, unix.SYS_CLOSE, tree)
	r.do("mount an overlay of "+host, unix.SYS_MOUNT, r.str("sandbox"), r.str(newRoot, workspace), r.str("overlay"),
		val(unix.MS_NOSUID|unix.MS_NODEV),
		r.str("lowerdir=", lower, ",upperdir=", upper, ",workdir=", work, ",", options))
	r.do("umount "+host, unix.SYS_UMOUNT2, r.str(lower), val(unix.MNT_DETACH)) // the overlay has a mount of its own
	r.upper = append(r.upper, r.get("open "+upper, unix.SYS_OPENAT, cwd, r.str(upper), val(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC),
		val(0)))
	r.coverHidden(host, workspace)
}

// coverHidden covers the hidden paths of a host path that is mounted at a place.
func (r *root) coverHidden(host, at string) {
	if r.hidden == nil {
		h := backends.LocateHidden(r.hide)
		r.hidden = &h
	}
	for _, c := range r.hidden.CoversIn(backends.Mount{Host: host, Inside: at}) {
		if c.Dir {
			r.mountTmpfs(newRoot+c.Inside, "mode=555,size=4k,nr_inodes=1", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
			continue
		}
		r.do("cover "+c.Inside, unix.SYS_MOUNT, r.str("/dev/null"), r.str(newRoot, c.Inside), val(0), val(unix.MS_BIND), val(0))
		r.setMountAttr(newRoot+c.Inside, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
}

// pathState records a host path's state when it was mounted or copied: a copy, or a mount of a replaced file, does
// not follow a later change.
type pathState struct {
	path string
	at   func(string) (os.FileInfo, error)
	info os.FileInfo // nil if there was no file
}

// stateOf returns the present state of a path, as at reads it.
func stateOf(name string, at func(string) (os.FileInfo, error)) pathState {
	info, err := at(name)
	if err != nil {
		info = nil
	}
	return pathState{name, at, info}
}

// changed reports whether the path has been replaced. Changes in a directory are visible through its mount.
func (l pathState) changed() bool {
	now := stateOf(l.path, l.at).info
	if now == nil || l.info == nil {
		return now != l.info
	}
	return !os.SameFile(now, l.info) || !now.IsDir() && (now.Size() != l.info.Size() || !now.ModTime().Equal(l.info.ModTime()))
}

// addTrust writes the host's trusted certificates and more to a file, and mounts that over the system's bundles, for
// programs that don't read the variables.
func (r *root) addTrust(more []byte) {
	if len(more) == 0 {
		return
	}
	r.mkdir(path.Dir(backends.TrustFile))
	r.write(newRoot+backends.TrustFile, string(backends.TrustedWith(more)), unix.O_CREAT, 0o644)
	for _, at := range visibleBundles() {
		r.do("mount "+at, unix.SYS_MOUNT, r.str(newRoot+backends.TrustFile), r.str(newRoot, at), val(0), val(unix.MS_BIND), val(0))
		r.setMountAttr(newRoot+at, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
}

// visibleBundles returns the bundles in the part of the host that a sandbox sees, with links resolved: PID 1 still
// has the host's root, where a link would lead elsewhere.
func visibleBundles() (visible []string) {
	for _, bundle := range backends.Bundles {
		real, err := filepath.EvalSymlinks(bundle)
		if err == nil && !slices.Contains(visible, real) && isVisible(real) {
			visible = append(visible, real)
		}
	}
	return visible
}

// isVisible reports whether a host file is below a path that all sandboxes show.
func isVisible(file string) bool {
	if slices.ContainsFunc(backends.SystemDirs, func(dir string) bool { return paths.Below(file, dir) }) {
		return true
	}
	return slices.ContainsFunc(etcNames(), func(name string) bool {
		at := "/etc/" + name
		info, err := os.Lstat(at)
		return err == nil && (at == file || info.IsDir() && paths.Within(file, at))
	})
}
