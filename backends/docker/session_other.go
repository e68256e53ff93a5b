//go:build !unix

package docker

import "syscall"

func ownSession() *syscall.SysProcAttr { return nil }
