//go:build !linux

package keyring

// reachable has nothing to look for: the keyring is a part of the system.
func reachable() error { return nil }
