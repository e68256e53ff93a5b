package launch

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

func init() {
	role.TakeOver(role.HostCommand, func() int {
		runtime.LockOSThread() // the command inherits the prctl settings of this thread
		return serve(os.NewFile(Order, "order"), os.NewFile(Answer, "answer"))
	})
}

// serve runs one command. Its exit code is 0 in any case.
func serve(order, answer *os.File) int {
	tell := func(r Report) { _ = json.NewEncoder(answer).Encode(r) } // on error, the reader has gone
	lines := bufio.NewReader(order)
	line, err := lines.ReadBytes('\n')
	var t Task
	if err == nil {
		err = json.Unmarshal(line, &t)
	}
	if err == nil {
		err = prepare(t)
	}
	if err != nil {
		tell(Report{Failed: err.Error()})
		return 0
	}
	pid, err := fork(t)
	if err != nil {
		tell(Report{Failed: "start " + t.Path + ": " + err.Error()})
		return 0
	}
	tell(Report{PID: pid})
	for _, fd := range []int{0, 1, 2} { // else readers would wait for us too
		_ = unix.Dup3(Order, fd, 0)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, lines)
	}()
	tell(wait(pid, gone, t))
	return 0
}

// fork starts the command, in its cgroup if it has one. In v1 the first process starts in the cgroup of this thread,
// which moves there for a moment. The command dies with this thread, so another thread can't do it.
func fork(t Task) (int, error) {
	sys := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if t.V2 {
		sys.UseCgroupFD, sys.CgroupFD = true, FirstJoin
	} else if err := move(FirstJoin, t.Join); err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(t.Path, t.Args, &syscall.ProcAttr{Env: t.Env, Files: []uintptr{0, 1, 2}, Sys: sys})
	if t.V2 {
		return pid, err
	}
	if moved := move(FirstJoin+t.Join, t.Leave); moved != nil && err == nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return 0, moved
	}
	return pid, err
}

// move moves this thread into v1's cgroups.
func move(first, n int) error {
	for fd := first; fd < first+n; fd++ {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return os.NewSyscallError("enter a cgroup", err)
		}
	}
	return nil
}

// prepare sets up this process as the parent of the command.
func prepare(t Task) error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return os.NewSyscallError("setrlimit(RLIMIT_CORE)", err)
	}
	if t.Join == 0 {
		if err := bound(t.Bounds); err != nil {
			return err
		}
	}
	unix.Umask(0o022)
	if err := os.Chdir(t.Directory); err != nil {
		return err
	}
	if at, err := os.Readlink("/proc/self/cwd"); err != nil || at != t.Directory {
		return &os.PathError{Op: "enter", Path: t.Directory, Err: syscall.EXDEV} // it was replaced by a link
	}
	return nil
}

// wait waits until no descendant is left. It kills them when the command has ended, gone is closed, or they exceed
// their bounds; a cgroup needs no sampling for the latter.
func wait(pid int, gone <-chan struct{}, t Task) Report {
	r := Report{Over: true}
	exceeded := make(chan string, 1)
	if t.Join == 0 {
		if t.RAM > 0 { // per process, but not for this one, which may need more
			_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(t.RAM), Max: uint64(t.RAM)}, nil) // the process may have ended
		}
		go watch(t.Bounds, exceeded)
	}
	ended, over := make(chan struct{}), make(chan struct{})
	swept := make(chan struct{})
	limit := ""
	go func() {
		defer close(swept)
		select {
		case <-gone:
		case <-ended:
		case limit = <-exceeded:
		}
		sweep(over)
	}()
	for done := false; ; {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		p, err := syscall.Wait4(-1, &status, 0, &usage)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD: no child is left
			close(over)
			if !done {
				close(ended)
			}
			<-swept
			r.Limit = limit
			return r
		case p == pid:
			done = true
			r.addProcess(status, usage)
			close(ended)
		case done:
			r.Killed++
		}
	}
}

func (r *Report) addProcess(status syscall.WaitStatus, usage syscall.Rusage) {
	r.CPU, r.Memory = (usage.Utime.Nano()+usage.Stime.Nano())/1000, usage.Maxrss<<10
	if status.Signaled() {
		r.Signal = int(status.Signal())
		return
	}
	r.Exit = status.ExitStatus()
}

// sweep kills all descendants until over is closed. It stops them first, because a process that forks could evade the
// search indefinitely.
func sweep(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		stopped := map[int]bool{}
		for more := true; more; {
			more = false
			for _, pid := range descendants() {
				if !stopped[pid] && unix.Kill(pid, unix.SIGSTOP) == nil {
					stopped[pid], more = true, true
				}
			}
		}
		for pid := range stopped {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
