//go:build unix

package statefile

import "syscall"

// AloneVFS is SQLite's name for access to a file that nobody else can open: it needs no -shm file (https://sqlite.org/vfs.html).
const AloneVFS = "unix-excl"

// Free returns how many bytes of a directory's file system are free, -1 where that is not known.
func Free(dir string) int64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
