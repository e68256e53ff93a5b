//go:build !unix

package host

import "io/fs"

// Commands do not run on the host here; see Run.
func changeable(fs.FileInfo) string { return "is on a system where this can't be known" }

func sticky(fs.FileInfo) bool { return false }
