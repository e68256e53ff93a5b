//go:build !unix

package transcript

import "os/exec"

func alone(*exec.Cmd) {}

func end(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
