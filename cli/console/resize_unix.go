//go:build linux || darwin

package console

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// noFollow makes open(2) fail if the last part of the path is a symbolic link.
const noFollow = unix.O_NOFOLLOW

// WatchSize returns a channel that receives SIGWINCH, which the kernel sends for each change of the terminal's size,
// until stop.
func WatchSize() (changes <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
