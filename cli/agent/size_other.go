//go:build !unix

package agent

import "io/fs"

// diskSize returns the size of a file.
func diskSize(info fs.FileInfo) int64 { return info.Size() }
