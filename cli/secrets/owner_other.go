//go:build !unix

package secrets

import "io/fs"

const posix = false

// ownerOf knows no users here.
func ownerOf(fs.FileInfo) (id string, ours bool) { return "", true }
