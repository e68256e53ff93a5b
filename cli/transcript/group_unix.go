//go:build unix

package transcript

import (
	"os/exec"
	"syscall"
)

// alone has cmd start in a process group of its own, with what it leaves in the background.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// end ends the group.
func end(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
