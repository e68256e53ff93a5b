//go:build unix

package container

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// directoryID identifies a directory of a machine, whatever its name.
func directoryID(_ string, info fs.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Dev, " ", st.Ino)
}

// ownerOf returns the owner of a file.
func ownerOf(info fs.FileInfo) (uid, gid int) {
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// maxFiles is the limit of descriptors that we have: no container is given more.
func maxFiles() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 1 << 20
	}
	return uint64(r.Max)
}
