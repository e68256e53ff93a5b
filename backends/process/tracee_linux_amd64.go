package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// canRewrite reports whether an idle interpreter's arguments and variables can be changed from outside.
const canRewrite = true

// tracee is the stopped main thread of an idle interpreter. Only the thread that has stopped it may use it
// (runtime.LockOSThread), and when that ends, the kernel detaches.
type tracee struct {
	pid  int
	regs unix.PtraceRegs // as they were when it stopped: behind the syscall instruction
}

// seize stops a thread that waits in the system call nr.
func seize(pid int, nr uint64) (*tracee, error) {
	if err := unix.PtraceSeize(pid); err != nil {
		return nil, fmt.Errorf("ptrace: %w", err)
	}
	t := &tracee{pid: pid}
	err := unix.PtraceInterrupt(pid)
	if err == nil {
		err = t.wait()
	}
	if err == nil {
		err = unix.PtraceGetRegs(pid, &t.regs)
	}
	if err == nil && (t.regs.Orig_rax != nr || !restarts(int64(t.regs.Rax))) {
		err = errElsewhere
	}
	if err != nil {
		t.detach()
		return nil, err
	}
	return t, nil
}

// detach lets the thread go. A killed thread must be waited for: as long as it is traced, its PID namespace can't end, and
// a wait for that would never return.
func (t *tracee) detach() error {
	err := unix.PtraceDetach(t.pid)
	if err == unix.ESRCH {
		for t.wait() == nil { // a stop that came before its death
		}
	}
	return err
}

// restarts reports whether an interrupted call will begin again: ERESTARTSYS, ERESTARTNOINTR and ERESTARTNOHAND of the
// kernel's errno.h, which programs never see.
func restarts(result int64) bool { return result <= -512 && result >= -514 }

// wait returns when the thread has stopped. Its death is an error.
func (t *tracee) wait() error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(t.pid, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return err
		case !status.Stopped():
			return errors.New("it is dead")
		default:
			return nil
		}
	}
}

// call has the thread make one system call.
func (t *tracee) call(nr uint64, args ...uint64) (uint64, error) {
	r := t.regs
	r.Rip -= 2 // the instruction that it waits in
	r.Rax, r.Orig_rax = nr, ^uint64(0)
	for i, to := range []*uint64{&r.Rdi, &r.Rsi, &r.Rdx, &r.R10, &r.R8} {
		*to = 0
		if i < len(args) {
			*to = args[i]
		}
	}
	if err := unix.PtraceSetRegs(t.pid, &r); err != nil {
		return 0, err
	}
	if err := unix.PtraceSingleStep(t.pid); err != nil {
		return 0, err
	}
	if err := t.wait(); err != nil {
		return 0, err
	}
	if err := unix.PtraceGetRegs(t.pid, &r); err != nil {
		return 0, err
	}
	if result := int64(r.Rax); result < 0 && result > -4096 {
		return 0, unix.Errno(-result)
	}
	return r.Rax, nil
}

// release lets the thread restart the call in which it was stopped.
func (t *tracee) release() error {
	r := t.regs
	r.Rip -= 2
	r.Rax, r.Orig_rax = t.regs.Orig_rax, ^uint64(0)
	return errors.Join(unix.PtraceSetRegs(t.pid, &r), t.detach())
}
