//go:build !linux

package podman

import "os"

// openPidfd would open a container's first process, which can't be seen from here.
func openPidfd(int) *os.File { return nil }

// watchExit would report its end.
func watchExit(*os.File) (died <-chan bool, stop func()) { return nil, func() {} }

// killProcess would end it.
func killProcess(*os.File) bool { return false }

// oomKills would count what the kernel killed.
func oomKills(int) func() int { return func() int { return 0 } }
