//go:build unix

package wiring

import "syscall"

// maxFiles returns how many files this process may open. Go's runtime has raised that to the hard limit.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return minFiles
	}
	return uint64(limit.Cur)
}
