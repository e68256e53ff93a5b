package backends

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// kernelKinds are types of file systems through which the kernel shows and changes its own state, its processes or
// its devices.
var kernelKinds = []string{
	"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "selinuxfs", "configfs", "bpf", "pstore",
	"efivarfs", "fusectl", "binfmt_misc", "hugetlbfs", "mqueue", "nsfs", "resctrl", "rpc_pipefs", "nfsd",
}

// submounts implements Submounts.
func (table mountTable) submounts(host string) (list []Submount) {
	for _, m := range table {
		if !paths.Below(m.point, host) {
			continue
		}
		var seen unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, m.point, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID|unix.STATX_TYPE, &seen)
		switch {
		case errors.Is(err, unix.ENOENT), err == nil && seen.Mask&unix.STATX_MNT_ID != 0 && seen.Mnt_id != m.id:
			continue // covered by another mount
		}
		file := err == nil && seen.Mode&unix.S_IFMT != unix.S_IFDIR
		list = append(list, Submount{m.point, file, err != nil || slices.Contains(kernelKinds, m.kind)})
	}
	slices.SortFunc(list, func(a, b Submount) int { return len(a.Path) - len(b.Path) })
	return slices.DeleteFunc(slices.Clone(list), func(one Submount) bool {
		return slices.ContainsFunc(list, func(o Submount) bool { return o.Closed && paths.Below(one.Path, o.Path) })
	})
}

// kernelKind returns the file system type of a path without links if it is one of the kernel's own, "" otherwise.
func kernelKind(name string) string {
	if kind := FileSystem(name); slices.Contains(kernelKinds, kind) {
		return kind
	}
	return ""
}
