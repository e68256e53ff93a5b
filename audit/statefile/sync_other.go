//go:build !linux

package statefile

import "os"

// SyncData puts the data of f on the disk.
func SyncData(f *os.File) error { return f.Sync() }

// DropCache does nothing: only Linux can be asked.
func DropCache(*os.File) error { return nil }
