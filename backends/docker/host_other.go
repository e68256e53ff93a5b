//go:build !unix

package docker

import "syscall"

func ownSession() *syscall.SysProcAttr { return nil }

// kernelRelease is "": here, containers of Linux run in a virtual machine.
func kernelRelease() string { return "" }
