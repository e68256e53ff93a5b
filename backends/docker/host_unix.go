//go:build unix

package docker

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ownSession detaches ssh from the terminal: it asks no question there, and Ctrl-C does not cut the connection
// before we close it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// kernelRelease returns the kernel's release, as uname -r prints it. Outside of Linux no engine has the same
// release.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
