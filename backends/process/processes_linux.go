package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// procName returns a path in the /proc that shows the sandbox's processes: its own, or in the profile "landlock" the
// host's.
func (s *sandbox) procName(name string) string {
	if s.noNamespaces() {
		return "/proc/" + name
	}
	return "/proc/self/fd/" + strconv.Itoa(int(s.proc.Fd())) + "/" + name
}

// read returns the content of a file of procName, empty if it can't be read.
func (s *sandbox) read(name string) []byte {
	b, _ := readProc(s.procName(name))
	return b
}

// readProc reads a file of /proc. Package os would have the poller watch it first, which takes as many calls as the rest.
func readProc(name string) ([]byte, error) {
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

// descendants lists the living descendants of a process, by walking the parents of all processes. In the profile "landlock"
// an orphan's parent is PID 1's stand-in, so that only a process that is being forked right now is missed.
func (s *sandbox) descendants(pid int) []string {
	parents := map[int][]int{}
	names, _ := filepath.Glob(s.procName("[1-9]*/stat"))
	for _, name := range names {
		b, err := readProc(name)
		if err != nil {
			continue
		}
		fields := statFields(b)
		if len(fields) < 18 || fields[0] == "Z" && (fields[17] == "0" || fields[17] == "1") {
			continue // but not where the first of several threads has ended
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, _ := strconv.Atoi(fields[1])
		parents[parent] = append(parents[parent], child)
	}
	var out []string
	for queue := parents[pid]; len(queue) > 0; queue = queue[1:] {
		out = append(out, strconv.Itoa(queue[0]))
		queue = append(queue, parents[queue[0]]...)
	}
	slices.Sort(out)
	return out
}

// group lists the processes of a process group: field 5 of /proc/pid/stat.
func (s *sandbox) group(pgrp int) []string {
	var out []string
	for _, pid := range s.pids() {
		fields := statFields(s.read(pid + "/stat"))
		if len(fields) > 2 && fields[2] == strconv.Itoa(pgrp) {
			out = append(out, pid)
		}
	}
	return out
}

// signal signals processes by their names in /proc. A descriptor of such a directory is valid for pidfd_send_signal(2), so
// that a reused number is never signalled.
func (s *sandbox) signal(pids []string, sig unix.Signal) {
	for _, pid := range pids {
		fd, err := unix.Open(s.procName(pid), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		unix.PidfdSendSignal(fd, sig, nil, 0)
		unix.Close(fd)
	}
}

// killAll kills all processes of a session but PID 1, and stops them first, since only a stopped process can't fork
// meanwhile. It gives up after 100 rounds.
func (s *sandbox) killAll() {
	for range 100 {
		pids := s.pids()
		if len(pids) == 0 {
			return
		}
		s.signal(pids, unix.SIGSTOP)
		s.signal(s.pids(), unix.SIGKILL)
		time.Sleep(time.Millisecond)
	}
}

// killTree ends a session's command and its descendants. Processes that the command has left to PID 1 live on, as they do
// when a command ends by itself.
func (s *sandbox) killTree(pid int) {
	pids := append(s.descendants(pid), strconv.Itoa(pid))
	s.signal(pids, unix.SIGSTOP)
	s.signal(append(s.descendants(pid), pids...), unix.SIGKILL)
}

// pids lists the sandbox's processes, by their names in its own /proc.
func (s *sandbox) pids() []string {
	if s.noNamespaces() {
		return s.descendants(s.pid)
	}
	dir, err := os.Open(s.procName("."))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '1' || name[0] > '9' || name == "1" })
}

// hostPid returns the number of PID 1's only child in the server's PID namespace. PID 1's recorded number may be that of
// another namespace, but its pidfd tells the server's.
func (s *sandbox) hostPid() (int, error) {
	s.initHandle.mu.Lock()
	defer s.initHandle.mu.Unlock()
	if s.pidfd == nil {
		return 0, errors.New("PID 1 of the sandbox is dead")
	}
	pid, err := pidOf(s.pidfd)
	if err != nil {
		return 0, err
	}
	one := strconv.Itoa(pid)
	text, err := readProc(filepath.Join("/proc", one, "task", one, "children"))
	if err != nil {
		return 0, err
	}
	children := strings.Fields(string(text))
	if len(children) != 1 {
		return 0, fmt.Errorf("PID 1 of the sandbox has %d children", len(children))
	}
	return strconv.Atoi(children[0])
}

// kib parses "123 kB" into bytes.
func kib(field string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(field, " kB"), 10, 64)
	return n << 10
}

// statFields returns the fields of /proc/pid/stat from the third on: the second is the name in brackets.
func statFields(stat []byte) []string {
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// cpuTime adds up fields 14 to 17 of /proc/pid/stat, in ticks of 10 ms: proc_pid_stat(5).
func cpuTime(stat []byte) time.Duration {
	fields := statFields(stat)
	var ticks int64
	for i := 11; i <= 14 && i < len(fields); i++ {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// statusField returns the value of a key in /proc/PID/status, or in a file of the same format; "" if it is missing.
func statusField(text []byte, key string) string {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(key)); ok && len(value) > 0 && value[0] == ':' {
			return string(bytes.TrimSpace(value[1:]))
		}
	}
	return ""
}

// pidOf returns the process number of a pidfd in the server's PID namespace. The template knows the number in its own only.
func pidOf(pidfd *os.File) (int, error) {
	text, err := readProc("/proc/self/fdinfo/" + strconv.Itoa(int(pidfd.Fd())))
	if err != nil {
		return 0, fmt.Errorf("pid of a pidfd: %w", err)
	}
	line := statusField(text, "Pid")
	pid, err := strconv.Atoi(line)
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("pid of a pidfd: %q is none", line)
	}
	return pid, nil
}
