package launch

import (
	"syscall"
	"unsafe"
)

// State of a template or a launcher. Its children have copies, which they must reset.
var (
	isTemplate   bool // this process is a template
	request      Request
	sandboxClone cloneArgs
	reply        Reply
	rights       = struct {
		syscall.Cmsghdr
		fd int32
		_  int32
	}{Cmsghdr: syscall.Cmsghdr{Len: syscall.SizeofCmsghdr + 4, Level: syscall.SOL_SOCKET, Type: syscall.SCM_RIGHTS}}
)

// spawnSandbox receives one request from the server and forks a process. When it returns in the child, the child is
// PID 1 of a sandbox with this process's namespaces and root directory.
//
//go:nosplit
//go:norace
//go:nocheckptr
func spawnSandbox() {
	files, _ := receivePlan(unsafe.Pointer(&request), unsafe.Sizeof(request), 1)
	pidfd := int32(-1)
	sandboxClone.flags = request.Flags | clonePidfd
	sandboxClone.pidfd = uint64(uintptr(unsafe.Pointer(&pidfd)))
	sandboxClone.exitSignal = uint64(syscall.SIGCHLD)
	sandboxClone.cgroup = 0
	if files > 0 {
		sandboxClone.flags |= cloneIntoCgroup
		sandboxClone.cgroup = uint64(slots[SlotFiles])
	}
	pid, _, errno := syscall.RawSyscall(sysClone3, uintptr(unsafe.Pointer(&sandboxClone)), unsafe.Sizeof(sandboxClone), 0)
	if errno == syscall.ENOSYS && sandboxClone.cgroup == 0 && request.Flags&signalMask == 0 {
		// Container engines' filters return ENOSYS, since they can't see the flags. The older call stores the pidfd
		// at the parent-tid pointer, and has the exit signal in the bits of CLONE_NEWTIME.
		pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(sandboxClone.flags|sandboxClone.exitSignal), 0,
			uintptr(sandboxClone.pidfd), 0, 0, 0)
	}
	if pid == 0 && errno == 0 {
		// The signalfd stays: it reports the signals of the process that polls it.
		syscall.RawSyscall(syscall.SYS_CLOSE, slots[SlotControl], 0, 0)
		slots[SlotControl] = slots[SlotPlan]
		isTemplate = false
	}
	for i := uintptr(0); i < files; i++ {
		syscall.RawSyscall(syscall.SYS_CLOSE, slots[(SlotFiles+i)%Slots], 0, 0)
	}
	if !isTemplate {
		return
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, slots[SlotPlan], 0, 0)
	if errno != 0 {
		pidfd = -1 // the kernel may have stored the number of a descriptor that it then closed
	}
	reply.Errno = int32(errno)
	sendReply(pidfd)
}

// sendReply answers the server's request.
//
//go:nosplit
//go:norace
//go:nocheckptr
func sendReply(pidfd int32) {
	*(*uintptr)(unsafe.Pointer(&iov[0].Base)) = uintptr(unsafe.Pointer(&reply))
	*(*uintptr)(unsafe.Pointer(&header.Iov)) = uintptr(unsafe.Pointer(&iov))
	*(*uintptr)(unsafe.Pointer(&header.Control)) = uintptr(unsafe.Pointer(&rights))
	iov[0].Len, header.Iovlen, header.Controllen = uint64(unsafe.Sizeof(reply)), 1, 0
	if rights.fd = pidfd; pidfd >= 0 {
		header.Controllen = uint64(unsafe.Sizeof(rights))
	}
	syscall.RawSyscall(syscall.SYS_SENDMSG, slots[SlotControl], uintptr(unsafe.Pointer(&header)), syscall.MSG_NOSIGNAL)
	if pidfd >= 0 {
		syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(pidfd), 0, 0)
	}
}
