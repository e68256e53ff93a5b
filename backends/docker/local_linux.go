package docker

import "golang.org/x/sys/unix"

// kernelRelease is what uname -r says.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
