//go:build unix

package audit

import "syscall"

// free returns how many bytes of a directory's file system are free, -1 where that is not known.
func free(dir string) int64 {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
