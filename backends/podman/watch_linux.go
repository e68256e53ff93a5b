package podman

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openPidfd opens a container's first process, whose number then can't become another's. It returns nil if there is no
// such process here, as for an engine on another machine.
func openPidfd(pid int) *os.File {
	if pid <= 1 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if !isFirst(pid) {
		f.Close()
		return nil
	}
	return f
}

// watchExit reports when an open process has ended: true then, and false when stop was called. It returns nil for nil.
func watchExit(held *os.File) (died <-chan bool, stop func()) {
	if held == nil {
		return nil, func() {}
	}
	raw, err := held.SyscallConn()
	if err != nil {
		return nil, func() {}
	}
	held.SetReadDeadline(time.Time{})
	answer := make(chan bool, 1)
	go func() {
		ended := false
		raw.Read(func(fd uintptr) bool {
			ended = hasEnded(fd, 0)
			return ended
		})
		answer <- ended
	}()
	return answer, func() { held.SetReadDeadline(time.Unix(1, 0)) }
}

// killProcess ends an open process, and reports whether it has ended soon after. A process that we may not kill may be
// about to end.
func killProcess(held *os.File) (ended bool) {
	raw, err := held.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		soon := time.Second / 4
		if unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) == unix.EPERM {
			soon /= 5
		}
		ended = hasEnded(fd, soon)
	})
	return ended
}

// hasEnded waits until a process has ended, but no longer than within.
func hasEnded(pidfd uintptr, within time.Duration) bool {
	for until := time.Now().Add(within); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(max(0, time.Until(until)).Milliseconds()))
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// isFirst reports whether a process is the first of a namespace below ours: a number from another machine can be any
// process here.
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

// oomKills returns a function that counts how often the kernel killed something in a container for want of memory. It
// must be called as soon as the container has ended: the cgroup exists until the engine has cleaned up.
func oomKills(pid int) func() int {
	files := oomFiles(pid)
	return func() int {
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			for line := range bytes.Lines(data) {
				if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == "oom_kill" {
					n, _ := strconv.Atoi(string(f[1]))
					return n
				}
			}
		}
		return 0
	}
}

// oomFiles are the kernel's counters, for cgroup v1 and v2. A process can be in both.
func oomFiles(pid int) (files []string) {
	if !isFirst(pid) {
		return nil
	}
	groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[1] == "memory":
			files = append(files, filepath.Join("/sys/fs/cgroup/memory", parts[2], "memory.oom_control"))
		case parts[0] == "0":
			files = append(files, filepath.Join("/sys/fs/cgroup", parts[2], "memory.events"))
		}
	}
	return files
}
