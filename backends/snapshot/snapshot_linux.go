package snapshot

import (
	"io/fs"
	"syscall"
)

const noAccessTime = syscall.O_NOATIME

// private reports whether a file belongs to another user than the directory does, and the directory's owner may not
// read the file.
func private(info, dir fs.FileInfo) bool {
	file, owner := info.Sys().(*syscall.Stat_t), dir.Sys().(*syscall.Stat_t)
	group := file.Gid == owner.Gid && info.Mode()&0o040 != 0
	return file.Uid != owner.Uid && info.Mode()&0o004 == 0 && !group && info.Mode()&fs.ModeSymlink == 0
}
