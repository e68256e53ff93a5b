package launch

import (
	"syscall"
	"unsafe"
)

// What a nest needs besides. A child of it has copies, which it must not take for its own.
var (
	nesting bool // this process is a nest
	request Request
	born    cloneArgs
	reply   Reply
	rights  = struct {
		syscall.Cmsghdr
		fd int32
		_  int32
	}{Cmsghdr: syscall.Cmsghdr{Len: syscall.SizeofCmsghdr + 4, Level: syscall.SOL_SOCKET, Type: syscall.SCM_RIGHTS}}
)

// bear takes one request from the server and forks a process, which is PID 1 of a sandbox when this
// returns in it: the nest's namespaces and its furnished root are what it starts from.
//
//go:nosplit
//go:norace
//go:nocheckptr
func bear() {
	files, _ := take(unsafe.Pointer(&request), unsafe.Sizeof(request), 1)
	pidfd := int32(-1)
	born.flags = request.Flags | clonePidfd
	born.pidfd = uint64(uintptr(unsafe.Pointer(&pidfd)))
	born.exitSignal = uint64(syscall.SIGCHLD)
	born.cgroup = 0
	if files > 0 {
		born.flags |= cloneIntoCgroup
		born.cgroup = uint64(slots[SlotFiles])
	}
	pid, _, errno := syscall.RawSyscall(sysClone3, uintptr(unsafe.Pointer(&born)), unsafe.Sizeof(born), 0)
	if pid == 0 && errno == 0 {
		// The signalfd stays: it tells who polls it of that process's own signals.
		syscall.RawSyscall(syscall.SYS_CLOSE, slots[SlotControl], 0, 0)
		slots[SlotControl] = slots[SlotPlan]
		nesting = false
	}
	for i := uintptr(0); i < files; i++ {
		syscall.RawSyscall(syscall.SYS_CLOSE, slots[(SlotFiles+i)%Slots], 0, 0)
	}
	if !nesting {
		return
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, slots[SlotPlan], 0, 0)
	if errno != 0 {
		pidfd = -1 // the kernel may have told the number of a descriptor that it then took back
	}
	reply.Pid, reply.Errno = int32(pid), int32(errno)
	tell(pidfd)
}

// tell answers the server's request.
//
//go:nosplit
//go:norace
//go:nocheckptr
func tell(pidfd int32) {
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
