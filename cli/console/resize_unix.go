//go:build linux || darwin

package console

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

const noFollow = unix.O_NOFOLLOW

// Resized tells of each change of the terminal's size, until stop.
func Resized() (changes <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
