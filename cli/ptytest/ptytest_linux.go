// Package ptytest opens pseudo-terminals for tests.
package ptytest

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Open opens a pseudo-terminal. Writes to keyboard are input of tty.
func Open(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		hosttest.SkipMissing(t, "terminal", err.Error())
	}
	t.Cleanup(func() { keyboard.Close() })
	var number int
	if number, err = unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN); err == nil {
		err = unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		hosttest.SkipMissing(t, "terminal", err.Error())
	}
	t.Cleanup(func() { tty.Close() })
	return keyboard, tty
}
