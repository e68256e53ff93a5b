//go:build unix

package docker

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ownSession keeps ssh from the terminal: no question is asked there, and Ctrl-C does not cut the
// connection before we are done with it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// kernelRelease returns the kernel's release, as uname -r prints it; on other systems than Linux, no engine has the
// same.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
