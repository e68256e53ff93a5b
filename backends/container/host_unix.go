//go:build unix

package container

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// directoryID identifies a directory of a machine, independent of its name.
func directoryID(_ string, info fs.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(st.Dev, " ", st.Ino)
}

// ownerOf returns the owner of a file.
func ownerOf(info fs.FileInfo) (uid, gid int) {
	st := info.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}

// maxFiles is the limit of open files of a container.
func maxFiles() uint64 { return cappedRlimit(unix.RLIMIT_NOFILE, usualFiles) }

// Processes is the limit of processes (RLIMIT_NPROC) for a container's user.
func Processes() uint64 { return cappedRlimit(unix.RLIMIT_NPROC, usualProcesses) }

// cappedRlimit returns a limit that does not exceed our own: an engine without CAP_SYS_RESOURCE can't raise it.
func cappedRlimit(resource int, usual uint64) uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(resource, &r) != nil {
		return usual
	}
	return min(usual, uint64(r.Max))
}
