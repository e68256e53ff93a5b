//go:build !linux

package podman

// isLocal is always false: containers need Linux, which then is a virtual machine.
func (h hostInfo) isLocal() bool { return false }
