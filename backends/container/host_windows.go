package container

import (
	"io/fs"
)

// directoryID is which folder of a machine one is.
func directoryID(dir string, _ fs.FileInfo) string { return dir }

// ownerOf is whose a file is: nobody's that a container knows.
func ownerOf(fs.FileInfo) (uid, gid int) { return 0, 0 }

func maxFiles() uint64 { return 1 << 20 }
