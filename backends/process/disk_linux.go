package process

import (
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// disks are the writable directories of a container, each a file system of its own, except a workspace that is the host's.
var disks = []string{workspace, "/tmp", "/dev/shm"}

// maxFiles bounds the number of files in each of disks, also where the engine could not be configured to: it is the bound of a
// hardened sandbox.
const maxFiles = 256 << 10

// diskUsed returns how many bytes the sandbox's file system holds; of several, their sum.
func (s *Sandbox) diskUsed() int64 {
	if s.landlockOnly {
		return s.dirsUsed()
	}
	return used(s.statDisks())
}

// used returns the bytes that file systems hold, in total.
func used(disks []unix.Statfs_t) (sum int64) {
	for _, st := range disks {
		sum += int64(st.Blocks-st.Bfree) * st.Bsize
	}
	return sum
}

// diskFull reports whether one of the sandbox's file systems has no space left.
func (s *Sandbox) diskFull() bool {
	return slices.ContainsFunc(s.statDisks(), func(st unix.Statfs_t) bool { return st.Type == unix.TMPFS_MAGIC && st.Bfree == 0 })
}

// statDisks returns the state of the sandbox's file systems; zero values once they are closed.
func (s *Sandbox) statDisks() []unix.Statfs_t {
	if !s.inContainer {
		st := make([]unix.Statfs_t, 1)
		if conn, err := s.disk.SyscallConn(); err == nil {
			conn.Control(func(fd uintptr) { unix.Fstatfs(int(fd), &st[0]) })
		}
		return st
	}
	names := disks
	if s.host.Host != "" {
		names = disks[1:]
	}
	if s.home != "" {
		names = append(slices.Clone(names), s.home)
	}
	st := make([]unix.Statfs_t, len(names))
	for i, name := range names {
		unix.Statfs(name, &st[i])
	}
	return st
}

// dirsUsed adds up the size of the files in the sandbox's own directories, in bytes.
func (s *Sandbox) dirsUsed() int64 {
	const inode = 1 << 10 // or empty files could use up those of the host, and each poll would take longer
	var sum int64
	filepath.WalkDir(s.hostDir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += max(info.Sys().(*syscall.Stat_t).Blocks*512, inode)
		}
		return nil
	})
	return sum
}

// diskExceeded reports whether the disk limit is exceeded.
func (s *Sandbox) diskExceeded() bool {
	if s.landlockOnly {
		return s.dirsUsed() > s.limits.Disk
	}
	// A file system that is full to the last byte must report it (ENOSPC), although there is a little in another.
	const slack = 4 << 20
	disks := s.statDisks()
	return used(disks) > s.limits.Disk+slack ||
		slices.ContainsFunc(disks, func(st unix.Statfs_t) bool { return st.Files-st.Ffree > maxFiles })
}
