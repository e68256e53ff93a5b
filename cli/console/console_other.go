//go:build !linux && !darwin

package console

import "os"

// Open returns nil: on this system questions are not asked on a terminal.
func Open() *Console { return nil }

func isControlling(*os.File) bool { return false }
