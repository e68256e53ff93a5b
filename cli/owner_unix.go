//go:build unix

package cli

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

// maxFiles is how many files this process may open. Go's runtime has raised that to the hard limit.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return minFiles
	}
	return uint64(limit.Cur)
}
