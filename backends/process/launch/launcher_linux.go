package launch

import (
	"syscall"
	"unsafe"
)

// serve makes this process the launcher: it forks a PID 1 for each request of the server's, until the server is gone.
//
//go:norace
//go:nocheckptr
func serve() {
	all := ^uint64(0) // the children inherit it
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&all)), 0, sigsetSize, 0, 0)
	ignore := sigaction{handler: sigIgn} // the kernel reaps each PID 1: the server watches them by pidfd
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&ignore)), 0, sigsetSize, 0, 0)
	slots[SlotControl], isTemplate = Sock, true
	for isTemplate {
		polled[0].fd, polled[0].events = Sock, pollIn
		// The Go runtime has to know of this wait, or its monitor would wake up a hundred times a second.
		syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 1, 0, 0, 0, 0)
		spawnSandbox()
	}
	// This is the child.
	resetSignals()
	serveSandbox()
}
