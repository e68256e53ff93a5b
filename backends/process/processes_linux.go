package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// procName returns a path in the /proc that lists the sandbox's processes: its own, or in the profile "landlock"
// the host's.
func (s *Sandbox) procName(name string) string {
	if !s.HasNamespaces() {
		return "/proc/" + name
	}
	return "/proc/self/fd/" + strconv.Itoa(int(s.proc.Fd())) + "/" + name
}

// readProc returns the content of a file of procName, empty if it can't be read.
func (s *Sandbox) readProc(name string) []byte {
	b, _ := procfs.Read(s.procName(name))
	return b
}

// descendants lists the living descendants of a process, by walking the parents of all processes. In the profile
// "landlock" an orphan's parent is PID 1's substitute, so that only a process that is being forked right now is
// missed.
func (s *Sandbox) descendants(pid int) []string {
	parents := map[int][]int{}
	names, _ := filepath.Glob(s.procName("[1-9]*/stat"))
	for _, name := range names {
		b, err := procfs.Read(name)
		if err != nil {
			continue
		}
		fields := procfs.StatFields(b)
		if len(fields) < 18 || fields[0] == "Z" && (fields[17] == "0" || fields[17] == "1") {
			continue // unless only the first of several threads has ended
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

// processGroup lists the processes of a process group: field 5 of /proc/pid/stat.
func (s *Sandbox) processGroup(pgrp int) []string {
	var out []string
	for _, pid := range s.pids() {
		fields := procfs.StatFields(s.readProc(pid + "/stat"))
		if len(fields) > 2 && fields[2] == strconv.Itoa(pgrp) {
			out = append(out, pid)
		}
	}
	return out
}

// signal signals processes by their names in /proc. A descriptor of such a directory is valid for
// pidfd_send_signal(2), so that a reused PID is never signalled.
func (s *Sandbox) signal(pids []string, sig unix.Signal) {
	for _, pid := range pids {
		fd, err := unix.Open(s.procName(pid), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		unix.PidfdSendSignal(fd, sig, nil, 0)
		unix.Close(fd)
	}
}

// killAll kills all processes of a session except PID 1, and stops them first, since only a stopped process can't
// fork meanwhile. It gives up after 100 rounds.
func (s *Sandbox) killAll() {
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

// killTree kills a session's command and its descendants. Processes that have been reparented to PID 1 live on, as
// after a command's normal end.
func (s *Sandbox) killTree(pid int) {
	pids := append(s.descendants(pid), strconv.Itoa(pid))
	s.signal(pids, unix.SIGSTOP)
	s.signal(append(s.descendants(pid), pids...), unix.SIGKILL)
}

// pids lists the sandbox's processes in its own /proc.
func (s *Sandbox) pids() []string {
	if !s.HasNamespaces() {
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

// HostPID returns the PID of PID 1's only child in the server's namespace. PID 1's recorded PID may belong to
// another namespace, but its pidfd has the server's.
func (s *Sandbox) HostPID() (int, error) {
	s.Init.mu.Lock()
	defer s.Init.mu.Unlock()
	if s.pidfd == nil {
		return 0, errors.New("PID 1 of the sandbox is dead")
	}
	pid, err := procfs.PIDOf(s.pidfd)
	if err != nil {
		return 0, err
	}
	one := strconv.Itoa(pid)
	text, err := procfs.Read(filepath.Join("/proc", one, "task", one, "children"))
	if err != nil {
		return 0, err
	}
	children := strings.Fields(string(text))
	if len(children) != 1 {
		return 0, fmt.Errorf("PID 1 of the sandbox has %d children", len(children))
	}
	return strconv.Atoi(children[0])
}
