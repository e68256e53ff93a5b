//go:build unix

package agent

import (
	"io/fs"
	"syscall"
)

// diskSize returns the space that a file takes on the disk, where holes take none.
func diskSize(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}
