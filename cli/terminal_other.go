//go:build !linux && !darwin

package cli

import "os"

func openConsole() *console { return nil }

func controlling(*os.File) bool { return false }
