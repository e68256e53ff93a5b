//go:build unix

package wiring

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxProcesses returns the limit of processes and threads for the user of this process; root has none.
func maxProcesses() uint64 {
	var limit unix.Rlimit
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

// maxFiles returns the limit of open files for this process. Go's runtime has raised it to the hard limit.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return minFiles
	}
	return uint64(limit.Cur)
}
