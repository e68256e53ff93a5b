package launch

import (
	"syscall"
	"unsafe"
)

// init makes this process the launcher if it was started as one, and then does not return. It reads the arguments
// from the kernel, because package os is not initialised yet.
func init() {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	var args [len(Name) + len(Closed) + 3]byte // one byte more than the longest
	n, _ := syscall.Read(fd, args[:])
	syscall.Close(fd)
	switch string(args[:max(n, 0)]) {
	case Name + "\x00" + Closed + "\x00":
		syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
		serve()
	case Name + "\x00":
		serve()
	}
}

// serve makes this process the launcher: it forks a PID 1 for each request of the server, until the server is gone.
// It does not return.
//
//go:norace
//go:nocheckptr
func serve() {
	all := ^uint64(0) // inherited by the children
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&all)), 0, sigsetSize, 0, 0)
	ignore := sigaction{handler: sigIgn} // the kernel reaps each PID 1: the server watches them by pidfd
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&ignore)), 0, sigsetSize, 0, 0)
	slots[SlotControl], isTemplate = Sock, true
	for isTemplate {
		polled[0].fd, polled[0].events = Sock, pollIn
		// The Go runtime has to know of this wait; otherwise its monitor would wake up a hundred times a second.
		syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 1, 0, 0, 0, 0)
		spawnSandbox()
	}
	// This is the child.
	resetSignals()
	serveSandbox()
}
