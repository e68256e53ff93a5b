//go:build !linux

package snapshot

import "io/fs"

const noAccessTime = 0

// private is only needed for root, and root serves only on Linux.
func private(fs.FileInfo, fs.FileInfo) bool { return false }
