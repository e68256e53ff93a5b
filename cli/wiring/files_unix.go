//go:build unix

package wiring

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxProcesses returns how many processes and threads the user of this process may have; root may have any number.
func maxProcesses() uint64 {
	var limit unix.Rlimit
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}

// maxFiles returns how many files this process may open. Go's runtime has raised that to the hard limit.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return minFiles
	}
	return uint64(limit.Cur)
}
