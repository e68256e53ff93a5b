//go:build !linux

package vault

func mapLocked(int) []byte { return nil }
func unmap([]byte)         {}
func disableCoreDumps()    {}
