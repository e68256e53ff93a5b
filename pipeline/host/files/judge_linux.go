package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// identity is the device and inode of a file.
type identity struct{ device, inode uint64 }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), st.Ino} }

// identities returns the identities of the places that exist.
func identities(places []string) (all []identity) {
	for _, p := range places {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil {
			all = append(all, identityOf(&st))
		}
	}
	return all
}

// inspect opens a path below the root, and checks the opened file instead of its name: kind is its required type.
// Only directories may be opened with other flags than O_PATH, because that has no side effect.
func (a Access) inspect(d *rootedPath, kind uint32, flags int) (f *os.File, st unix.Stat_t, err error) {
	if f, err = d.open(d.rel, flags); err != nil {
		return nil, st, err
	}
	if err = a.judge(d, f, kind, &st); err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

func (a Access) judge(d *rootedPath, f *os.File, kind uint32, st *unix.Stat_t) error {
	var system unix.Statfs_t
	err := errors.Join(unix.Fstat(int(f.Fd()), st), unix.Fstatfs(int(f.Fd()), &system))
	if err != nil {
		return fmt.Errorf("inspect %q: %w", d.asked, err)
	}
	if got := st.Mode & unix.S_IFMT; got != kind {
		return deny(d.asked, "is %s, and not %s", kinds[got], kinds[kind])
	}
	if slices.Contains(kernels, uint32(system.Type)) {
		return deny(d.asked, "is not on a disk: it is a file of the kernel")
	}
	here := d.spot
	if here.real, err = nameOf(f); err != nil {
		return err
	}
	if err := a.Guard.check(here, false); err != nil {
		return err
	}
	if err := climb(d, *st, slices.Concat(a.Guard.ownIDs, d.private.ids)); err != nil {
		return err
	}
	if st.Nlink > 1 && kind == unix.S_IFREG {
		if place := otherName(identityOf(st), slices.Concat(a.Guard.ours, d.private.places)); place != "" {
			return deny(d.asked, "is another name of a file in %s, which is kept from agents", place)
		}
	}
	return nil
}

// climb walks from a file up to its root, and refuses forbidden identities on the way: a bind mount may show them
// under another name.
func climb(d *rootedPath, st unix.Stat_t, forbidden []identity) error {
	for at := d.rel; ; {
		if slices.Contains(forbidden, identityOf(&st)) {
			return deny(d.asked, "is, or lies in, a directory that is kept from agents under another name")
		}
		if at == "." {
			return nil
		}
		at = filepath.Dir(at)
		up, err := d.open(at, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		err = unix.Fstat(int(up.Fd()), &st)
		up.Close()
		if err != nil {
			return err
		}
	}
}

// otherName searches places for a hard link of a file, and returns the place that contains one.
func otherName(id identity, places []string) string {
	for _, place := range places {
		found := false
		_ = filepath.WalkDir(place, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil // unreadable for us, so unreadable here too
			}
			var st unix.Stat_t
			if unix.Lstat(name, &st) == nil && identityOf(&st) == id {
				found = true
				return fs.SkipAll
			}
			return nil
		})
		if found {
			return place
		}
	}
	return ""
}

var kinds = map[uint32]string{
	unix.S_IFREG: "a regular file", unix.S_IFDIR: "a directory", unix.S_IFLNK: "a link, which is not followed",
	unix.S_IFIFO: "a fifo", unix.S_IFSOCK: "a socket", unix.S_IFCHR: "a device", unix.S_IFBLK: "a device",
}

// kernels are file systems of the kernel, where reading or writing a file has side effects: statfs(2).
var kernels = []uint32{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
	unix.BPF_FS_MAGIC, unix.SECURITYFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.BINFMTFS_MAGIC,
	unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.NSFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC,
	0x62656570, 0x65735543, 0x19800202, // configfs, fusectl, mqueue
}
