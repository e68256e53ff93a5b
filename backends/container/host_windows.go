package container

import (
	"io/fs"
)

// directoryID identifies a directory of a machine.
func directoryID(dir string, _ fs.FileInfo) string { return dir }

// ownerOf returns root for every file: containers don't know Windows users.
func ownerOf(fs.FileInfo) (uid, gid int) { return 0, 0 }

func maxFiles() uint64 { return usualFiles }

// Processes is the limit of processes (RLIMIT_NPROC) for a container's user.
func Processes() uint64 { return usualProcesses }
