//go:build !linux && !darwin

package console

import "os"

// Open returns nil: on this system no terminal is used for questions.
func Open() *Console { return nil }

func controlling(*os.File) bool { return false }
