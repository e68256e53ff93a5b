//go:build !linux

package packages

// syncDirectory does nothing: this system has no call that syncs one file system.
func syncDirectory(string) error { return nil }
