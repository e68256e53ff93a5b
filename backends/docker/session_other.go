//go:build !unix

package docker

import "syscall"

func ownSession() *syscall.SysProcAttr { return nil }

func mostFiles() (uint64, bool) { return 0, false }
