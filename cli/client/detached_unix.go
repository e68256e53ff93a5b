//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// detached has cmd start in a session of its own, which the end of a terminal does not reach.
func detached(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}
