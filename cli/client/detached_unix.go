//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// detached makes cmd start in a session of its own, so that it outlives the terminal.
func detached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}
