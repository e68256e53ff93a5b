package podman

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// watch says when a container's first process has ended: true then, and false when stop was called. It returns nil if there is no such
// process here, as for an engine that is elsewhere.
func watch(pid int) (died <-chan bool, stop func()) {
	if pid <= 1 {
		return nil, func() {}
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, func() {}
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if !isFirst(pid) {
		f.Close()
		return nil, func() {}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, func() {}
	}
	said := make(chan bool, 1)
	go func() {
		ended := false
		raw.Read(func(fd uintptr) bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			ended = n > 0
			return ended
		})
		said <- ended
	}()
	return said, func() { f.Close() }
}

// isFirst says whether a process is the first one of a namespace below ours: a number that comes from
// another machine can be anybody's here.
func isFirst(pid int) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(status) {
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			fields := bytes.Fields(ids)
			return len(fields) > 1 && string(fields[len(fields)-1]) == "1"
		}
	}
	return false
}
