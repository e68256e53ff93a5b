// Package procfs reads files of /proc, and queries processes by their pidfds.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Read reads a file of /proc. Package os would first register it with the poller, which doubles the system calls.
func Read(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for text := make([]byte, 0, 2048); ; text = slices.Grow(text, 512) {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		}
		if text = text[:len(text)+n]; n == 0 {
			return text, nil
		}
	}
}

// KiB parses "123 kB" into bytes.
func KiB(field string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(field, " kB"), 10, 64)
	return n << 10
}

// StatFields returns the fields of /proc/pid/stat from the third on: the second, in brackets, is the name.
func StatFields(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// CPUTime sums fields 14 to 17 of /proc/pid/stat, in ticks of 10 ms: proc_pid_stat(5).
func CPUTime(stat []byte) time.Duration {
	fields := StatFields(stat)
	var ticks int64
	for i := 11; i <= 14 && i < len(fields); i++ {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// StatusField returns the value of a key in /proc/PID/status, or in a file of the same format; "" if it is missing.
func StatusField[T string | []byte](text T, key string) string {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key); ok && len(value) > 0 && value[0] == ':' {
			return strings.TrimSpace(value[1:])
		}
	}
	return ""
}

// PIDOf returns the PID of a pidfd's process in the server's namespace. The template knows only the PID in its own
// namespace.
func PIDOf(pidfd *os.File) (int, error) {
	text, err := Read("/proc/self/fdinfo/" + strconv.Itoa(int(pidfd.Fd())))
	if err != nil {
		return 0, fmt.Errorf("pid of a pidfd: %w", err)
	}
	line := StatusField(text, "Pid")
	pid, err := strconv.Atoi(line)
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("pid of a pidfd: %q is none", line)
	}
	return pid, nil
}

// EndsWithin waits for the end of a pidfd's process, and reports whether it ended in time.
func EndsWithin(pidfd *os.File, timeout time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(timeout); ; {
		left := time.Until(end)
		if n, err := unix.Poll(poll, max(0, int(left.Milliseconds()))); err != unix.EINTR || left <= 0 {
			return err == nil && n > 0
		}
	}
}

// HasEnded reports whether the process of a pidfd has ended.
func HasEnded(pidfd *os.File) bool { return EndsWithin(pidfd, 0) }
