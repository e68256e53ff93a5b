package runtimes

import (
	"io/fs"
	"syscall"
)

func inode(fi fs.FileInfo) uint64 {
	if s, ok := fi.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
