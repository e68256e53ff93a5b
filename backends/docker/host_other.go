//go:build !unix

package docker

import "syscall"

func ownSession() *syscall.SysProcAttr { return nil }

// kernelRelease returns "": on this system, Linux containers run in a virtual machine.
func kernelRelease() string { return "" }
