package runtimes

import (
	"io/fs"
	"syscall"
)

// inode returns a file's inode number, 0 if it is unknown.
func inode(fi fs.FileInfo) uint64 {
	if s, ok := fi.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
