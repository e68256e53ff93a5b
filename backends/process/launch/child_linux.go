package launch

import (
	"syscall"
	"unsafe"
)

// The following code runs in forked children, without a Go runtime: no function may grow its stack (go:nosplit),
// allocate, store a pointer, or be instrumented by the race detector. Its memory is declared here, and allocated
// page by page at first use.
var (
	plan  [MaxPlan]byte
	slots [Slots]uintptr

	programs [64]int32 // PIDs inside of the running programs
	signals  uintptr   // a signalfd for SIGCHLD
	children uint64    // its mask
	polled   [2]pollFD
	message  Message
	usage    syscall.Rusage
	hello    [HelloSize]byte
	cmsg     [16 + 4*MaxFiles]byte
	header   syscall.Msghdr
	iov      [2]syscall.Iovec
	infos    [128]byte // one signalfd_siginfo

	childrenFile = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 't', 'h', 'r', 'e', 'a', 'd', '-', 's', 'e', 'l', 'f', '/', 'c', 'h', 'i', 'l', 'd',
		'r', 'e', 'n', 0}
)

// Numbers and structures that package syscall lacks. clone3(2) has the same number on all architectures.
const (
	sysClone3       = 435
	clonePidfd      = 0x1000
	cloneIntoCgroup = 0x200000000
	signalMask      = 0xff // CSIGNAL, of clone(2)
	sigsetSize      = 8
	sigIgn          = 1
	pollIn          = 1
	atCwd           = ^uintptr(99) // AT_FDCWD, -100
)

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls, setTid, setTidSize, cgroup uint64
}

// sigaction is the kernel's structure for rt_sigaction(2).
type sigaction struct{ handler, flags, restorer, mask uint64 }

// pollFD is struct pollfd of poll(2).
type pollFD struct {
	fd              int32
	events, revents int16
}

// resetSignals removes the Go runtime's handlers. All signals stay blocked.
//
//go:nosplit
//go:norace
//go:nocheckptr
func resetSignals() {
	var none sigaction
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&none)), 0, sigsetSize, 0, 0)
	}
}

// loadPlan reads the plan from its descriptor, unless the message contained it and inMessage is its size in bytes;
// checks its size; and applies its fixups.
//
//go:nosplit
//go:norace
//go:nocheckptr
func loadPlan(inMessage uintptr) syscall.Errno {
	base := unsafe.Pointer(&plan)
	n := inMessage
	if slots[SlotPlan] != ^uintptr(0) {
		var errno syscall.Errno
		if n, _, errno = syscall.RawSyscall6(syscall.SYS_PREAD64, slots[SlotPlan], uintptr(base), MaxPlan, 0, 0, 0); errno != 0 {
			return errno
		}
	}
	h := (*Header)(base)
	if n < unsafe.Sizeof(*h) || uintptr(h.Size) != n {
		return syscall.EBADMSG
	}
	for i := uint32(0); i < h.FixupCount; i++ {
		f := (*Fixup)(unsafe.Add(base, uintptr(h.Fixups)+uintptr(i)*unsafe.Sizeof(Fixup{})))
		*(*uintptr)(unsafe.Add(base, f.At)) = uintptr(base) + uintptr(f.To)
	}
	return 0
}

// runSteps makes the plan's calls. At an unexpected result, it reports the step and exits.
//
//go:nosplit
//go:norace
//go:nocheckptr
func runSteps() {
	base := unsafe.Pointer(&plan)
	h := (*Header)(base)
	for i := uint32(0); i < h.StepCount; i++ {
		s := (*Step)(unsafe.Add(base, uintptr(h.Steps)+uintptr(i)*unsafe.Sizeof(Step{})))
		r, errno := call(s)
		if s.Errno != AnyErrno && int32(errno) != s.Errno {
			reportFailure(i, errno)
		}
		if errno == 0 && (s.Want >= 0 && int64(r) != s.Want || s.Want == Some && r == 0) {
			reportFailure(i, 0)
		}
		if s.Store >= 0 {
			slots[s.Store] = r
		}
	}
}

// call makes one system call.
//
//go:nosplit
//go:norace
//go:nocheckptr
func call(s *Step) (uintptr, syscall.Errno) {
	var a [6]uintptr
	for j := range a {
		a[j] = uintptr(s.Args[j])
		switch s.Kinds >> (4 * uint(j)) & 15 {
		case Address:
			a[j] += uintptr(unsafe.Pointer(&plan))
		case Slot:
			a[j] = slots[a[j]%Slots]
		}
	}
	if s.NR == Poke {
		*(*uint32)(unsafe.Add(unsafe.Pointer(&plan), s.Args[0])) = uint32(a[1])
		return 0, 0
	}
	r, _, errno := syscall.RawSyscall6(uintptr(s.NR), a[0], a[1], a[2], a[3], a[4], a[5])
	return r, errno
}

//go:nosplit
//go:norace
//go:nocheckptr
func reportFailure(step uint32, errno syscall.Errno) {
	pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	message.Kind, message.Index, message.Errno, message.Pid = Failed, int32(step), int32(errno), int32(pid)
	send()
	exit(126)
}

//go:nosplit
//go:norace
//go:nocheckptr
func send() {
	syscall.RawSyscall6(syscall.SYS_SENDTO, slots[SlotControl], uintptr(unsafe.Pointer(&message)), unsafe.Sizeof(message),
		syscall.MSG_NOSIGNAL, 0, 0)
}

//go:nosplit
//go:norace
//go:nocheckptr
func exit(code uintptr) {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, code, 0, 0)
	}
}
