//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// detach makes cmd start in a session of its own, so that it outlives the terminal.
func detach(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}
