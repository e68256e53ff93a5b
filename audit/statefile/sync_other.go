//go:build !linux

package statefile

import "os"

// SyncData syncs the data of f.
func SyncData(f *os.File) error { return f.Sync() }

// DropCache does nothing: only Linux has such a call.
func DropCache(*os.File) error { return nil }
