//go:build !linux

package docker

// kernelRelease is "": here, containers of Linux run in a virtual machine.
func kernelRelease() string { return "" }
