package launch

import (
	"syscall"
	"unsafe"
)

// serve starts a sandbox for each plan that the server sends, until the server is gone.
func serve() {
	ignoreChildren()
	for {
		files, ok := receive()
		if !ok {
			return
		}
		reply, pidfd := launch(files)
		for _, fd := range files {
			syscall.Close(fd)
		}
		if !answer(reply, pidfd) {
			return
		}
	}
}

// ignoreChildren lets the kernel reap each PID 1: the server watches them by pidfd.
func ignoreChildren() {
	action := sigaction{handler: sigIgn}
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD),
		uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
}

// receive waits for a plan. The first descriptor is the plan itself.
func receive() (files []int, ok bool) {
	var hello [1]byte
	oob := make([]byte, syscall.CmsgSpace(4*MaxFiles))
	for {
		n, oobn, _, _, err := syscall.Recvmsg(Sock, hello[:], oob, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, false
		}
		messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) != 1 {
			return nil, false
		}
		files, err = syscall.ParseUnixRights(&messages[0])
		return files, err == nil
	}
}

// launch forks a process that follows the plan in files[0].
func launch(files []int) (Reply, int) {
	for i, fd := range files {
		slots[i] = uintptr(fd)
	}
	if errno := load(uintptr(files[0])); errno != 0 {
		return Reply{Errno: int32(errno)}, -1
	}
	pidfd := int32(-1)
	h := (*Header)(unsafe.Pointer(&plan))
	args := cloneArgs{
		flags:      h.Flags | clonePidfd,
		pidfd:      uint64(uintptr(unsafe.Pointer(&pidfd))),
		exitSignal: uint64(syscall.SIGCHLD),
	}
	if h.Cgroup >= 0 {
		args.flags |= cloneIntoCgroup
		args.cgroup = uint64(slots[h.Cgroup])
	}
	pid, errno := fork(&args)
	return Reply{Pid: int32(pid), Errno: int32(errno)}, int(pidfd)
}

// answer reports to the server what became of its plan.
func answer(r Reply, pidfd int) bool {
	var oob []byte
	if pidfd >= 0 {
		oob = syscall.UnixRights(pidfd)
		defer syscall.Close(pidfd)
	}
	buf := (*[unsafe.Sizeof(r)]byte)(unsafe.Pointer(&r))[:]
	return syscall.Sendmsg(Sock, buf, oob, nil, syscall.MSG_NOSIGNAL) == nil
}
