//go:build !linux

package podman

// isHere is never so: containers need Linux, which then is a virtual machine.
func (h hostInfo) isHere() bool { return false }
