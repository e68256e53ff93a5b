//go:build unix

package setup

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives f the owner and group of another file, where that is permitted.
func chownLike(f *os.File, like fs.FileInfo) {
	if s, ok := like.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(s.Uid), int(s.Gid))
	}
}
