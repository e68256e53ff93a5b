//go:build !linux

package run

import "io/fs"

// stampOf goes without ctime and inode here: a program that sets a file's size and time back hides
// that it changed the file.
func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
}
