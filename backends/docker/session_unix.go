//go:build unix

package docker

import "syscall"

// ownSession keeps ssh from the terminal: no question is asked there, and Ctrl-C does not cut the
// connection before we are done with it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
