//go:build unix

package container

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// directoryID is which folder of a machine one is, whatever it is called.
func directoryID(_ string, info fs.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Dev, " ", st.Ino)
}

// ownerOf is whose a file is.
func ownerOf(info fs.FileInfo) (uid, gid int) {
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// maxFiles is how many descriptors we may have at the most: no container is given more.
func maxFiles() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 1 << 20
	}
	return uint64(r.Max)
}
