//go:build !linux

package podman

import "os"

// hold would return a container's first process, which can't be seen from here.
func hold(int) *os.File { return nil }

// watch says when it has ended.
func watch(*os.File) (died <-chan bool, stop func()) { return nil, func() {} }

// killed ends it.
func killed(*os.File) bool { return false }

// oomKills would count what the kernel killed.
func oomKills(int) func() int { return func() int { return 0 } }
