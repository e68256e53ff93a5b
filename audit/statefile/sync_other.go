//go:build !linux

package statefile

import "os"

func SyncData(f *os.File) error { return f.Sync() }
