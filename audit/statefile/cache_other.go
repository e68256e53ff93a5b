//go:build !linux

package statefile

import "os"

// DropCache does nothing: only Linux can be asked.
func DropCache(*os.File) error { return nil }
