//go:build unix

package setup

import (
	"os"
	"syscall"
)

// own gives f the owner and group of the file like. Errors do not count: only root can give files away, and others own f
// already.
func own(f *os.File, like string) {
	if info, err := os.Stat(like); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(s.Uid), int(s.Gid))
		}
	}
}
