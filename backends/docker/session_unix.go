//go:build unix

package docker

import "syscall"

// ownSession keeps ssh from the terminal: no question is asked there, and Ctrl-C does not cut the
// connection before we are done with it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// mostFiles is the highest limit of open files (RLIMIT_NOFILE) that this process may have, and so the
// highest that an engine of the same user can give.
func mostFiles() (uint64, bool) {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	return uint64(r.Max), err == nil
}
