package launch

import (
	"syscall"
	"unsafe"
)

// serve forks a PID 1 for each request of the server's, until the server is gone.
func serve() {
	ignoreChildren()
	for {
		r, files, ok := receive()
		if !ok {
			return
		}
		reply, pidfd := forkInit(r, files)
		for _, fd := range files {
			syscall.Close(fd)
		}
		if !answer(reply, pidfd) {
			return
		}
	}
}

// ignoreChildren has the kernel reap each PID 1: the server watches them by pidfd.
func ignoreChildren() {
	action := sigaction{handler: sigIgn}
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD),
		uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
}

// receive waits for a request.
func receive() (r Request, files []int, ok bool) {
	buf := (*[unsafe.Sizeof(r)]byte)(unsafe.Pointer(&r))[:]
	oob := make([]byte, syscall.CmsgSpace(4*MaxFiles))
	for {
		n, oobn, _, _, err := syscall.Recvmsg(Sock, buf, oob, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n != len(buf) {
			return r, nil, false
		}
		messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) != 1 {
			return r, nil, false
		}
		files, err = syscall.ParseUnixRights(&messages[0])
		return r, files, err == nil
	}
}

// forkInit forks a PID 1. files are its control socket and, if any, its cgroup v2 directory.
func forkInit(r Request, files []int) (Reply, int) {
	slots[SlotControl] = uintptr(files[0])
	pidfd := int32(-1)
	args := cloneArgs{
		flags:      r.Flags | clonePidfd,
		pidfd:      uint64(uintptr(unsafe.Pointer(&pidfd))),
		exitSignal: uint64(syscall.SIGCHLD),
	}
	if len(files) > 1 {
		args.flags |= cloneIntoCgroup
		args.cgroup = uint64(files[1])
	}
	pid, errno := fork(&args)
	if errno != 0 {
		pidfd = -1 // the kernel may have stored the number of a descriptor that it then closed
	}
	return Reply{Pid: int32(pid), Errno: int32(errno)}, int(pidfd)
}

// answer sends the result of a request.
func answer(r Reply, pidfd int) bool {
	var oob []byte
	if pidfd >= 0 {
		oob = syscall.UnixRights(pidfd)
		defer syscall.Close(pidfd)
	}
	buf := (*[unsafe.Sizeof(r)]byte)(unsafe.Pointer(&r))[:]
	return syscall.Sendmsg(Sock, buf, oob, nil, syscall.MSG_NOSIGNAL) == nil
}
