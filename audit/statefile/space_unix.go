//go:build unix

package statefile

import "syscall"

// ExclusiveVFS is SQLite's VFS for exclusive access to a file, which needs no -shm file
// (https://sqlite.org/vfs.html).
const ExclusiveVFS = "unix-excl"

// Space returns the space of the file system that has a directory, in bytes; a total of 0 is unknown.
func Space(dir string) (free, total int64) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize)
}
