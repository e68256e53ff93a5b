//go:build unix

package secrets

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// posix says that the modes of files mean what they say.
const posix = true

// ownerOf is the user that a file belongs to, and whether that is this process's.
func ownerOf(info fs.FileInfo) (id string, ours bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", true
	}
	return strconv.Itoa(int(stat.Uid)), int(stat.Uid) == os.Geteuid()
}
