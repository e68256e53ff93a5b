//go:build !linux

package hostfs

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// handle is an open directory on a path; it has to be readable on this system.
type handle struct{ *os.Root }

func openTop(name string) (handle, error) {
	top, err := os.OpenRoot(name)
	return handle{top}, err
}

// step opens the directory elem, or returns the target of the link elem. Anything else is syscall.ENOTDIR.
func (h handle) step(elem string) (next handle, to string, err error) {
	info, err := h.Lstat(elem)
	switch {
	case err != nil:
		return next, "", err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err = h.Readlink(elem)
		return next, to, err
	case !info.IsDir():
		return next, "", syscall.ENOTDIR
	}
	next.Root, err = openChecked(h.Root, elem, info)
	return next, "", err
}

// trusted reports whether no program can have put a link into the directory. top means that it is the root
// directory; neverWritable means that no sandbox had it writable while root owned it.
func (h handle) trusted(top, neverWritable bool) bool {
	info, err := h.Stat(".")
	if err != nil || top && !statefile.HasModes {
		return err == nil
	}
	uid, known := statefile.Owner(info)
	return known && uid == 0 && info.Mode().Perm()&0o022 == 0 && (top || neverWritable)
}

func (h handle) root(string) (*os.Root, error) { return h.OpenRoot(".") }

// checkWritable returns nil: this system can't tell before the first file is made.
func checkWritable(*os.Root) error { return nil }
