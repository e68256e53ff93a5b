//go:build !linux

package runtimes

import "io/fs"

// inode returns 0 for unknown: only Linux is supported.
func inode(fs.FileInfo) uint64 { return 0 }
