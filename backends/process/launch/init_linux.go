package launch

import (
	"syscall"
	"unsafe"
)

// serveSandbox is the main loop of PID 1: it executes the server's plan for the sandbox, starts programs at the
// server's request, reaps every process of the sandbox, and reports the ends of programs. When the server's end of
// the socket is closed it exits, and the kernel kills all other processes of its PID namespace.
//
//go:nosplit
//go:norace
//go:nocheckptr
func serveSandbox() {
	children = 1 << (uint(syscall.SIGCHLD) - 1)
	signals, _, _ = syscall.RawSyscall6(syscall.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&children)), sigsetSize, syscall.O_CLOEXEC,
		0, 0)
	for {
		polled[0].fd, polled[0].events, polled[0].revents = int32(slots[SlotControl]), pollIn, 0
		polled[1].fd, polled[1].events, polled[1].revents = int32(signals), pollIn, 0
		syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&polled)), 2, 0, 0, 0, 0)
		if polled[1].revents != 0 {
			syscall.RawSyscall(syscall.SYS_READ, signals, uintptr(unsafe.Pointer(&infos)), unsafe.Sizeof(infos))
			reapAll()
		}
		if polled[0].revents != 0 && isTemplate {
			spawnSandbox()
		} else if polled[0].revents != 0 {
			servePlan()
		}
	}
}

// reapAll reaps all ended processes.
//
//go:nosplit
//go:norace
//go:nocheckptr
func reapAll() {
	const noHang = 1
	for {
		var status int32
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), noHang,
			uintptr(unsafe.Pointer(&usage)), 0, 0)
		if errno != 0 || pid == 0 {
			return
		}
		for i := range programs {
			if programs[i] != int32(pid) {
				continue
			}
			programs[i] = 0
			message.Kind, message.Pid, message.Wait, message.Alone = Exited, int32(pid), status, alone()
			message.CPU = (usage.Utime.Sec+usage.Stime.Sec)*1e6 + int64(usage.Utime.Usec) + int64(usage.Stime.Usec)
			message.MaxRSS = usage.Maxrss
			send()
		}
	}
}

// alone returns 1 if PID 1 has no children: since orphans become its children, its PID namespace then has no other
// processes.
//
//go:nosplit
//go:norace
//go:nocheckptr
func alone() int32 {
	const all, peek = 0, 0x1000005 // P_ALL; WNOWAIT, WEXITED and WNOHANG
	_, _, errno := syscall.RawSyscall6(syscall.SYS_WAITID, all, 0, uintptr(unsafe.Pointer(&infos)), peek, 0, 0)
	if errno == syscall.ECHILD {
		return 1
	}
	return 0
}

// servePlan receives one plan from the server, and executes it or forks a process that does.
//
//go:nosplit
//go:norace
//go:nocheckptr
func servePlan() {
	files, size := receivePlan(unsafe.Pointer(&hello), unsafe.Sizeof(hello), 2)
	if errno := loadPlan(size - unsafe.Sizeof(hello)); errno != 0 {
		reportFailure(0, errno)
	}
	if hello[0] == ForProgram {
		spawn()
	} else {
		runSteps()
	}
	isTemplate = hello[0] == ForTemplate
	wipePlan(files)
}

// spawn forks the process of a program.
//
//go:nosplit
//go:norace
//go:nocheckptr
func spawn() {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		message.Kind, message.Index, message.Errno, message.Pid = Failed, -1, int32(errno), 0
		send()
		return
	}
	if pid == 0 {
		runSteps()
		exit(126) // execve does not return
	}
	recordProgram(int32(pid))
}

// wipePlan closes a plan's descriptors and clears the plan, whose environment may contain secrets.
//
//go:nosplit
//go:norace
//go:nocheckptr
func wipePlan(files uintptr) {
	for i := uintptr(0); i < files; i++ {
		syscall.RawSyscall(syscall.SYS_CLOSE, slots[(SlotFiles+i)%Slots], 0, 0)
	}
	syscall.RawSyscall(syscall.SYS_CLOSE, slots[SlotPlan], 0, 0)
	size := (*Header)(unsafe.Pointer(&plan)).Size
	for i := uint32(0); i < size && i < MaxPlan; i++ {
		plan[i] = 0
	}
}

// recordProgram records a program whose end the server awaits.
//
//go:nosplit
//go:norace
//go:nocheckptr
func recordProgram(pid int32) {
	for i := range programs {
		if programs[i] == 0 {
			programs[i] = pid
			return
		}
	}
}

// receivePlan receives a message and its descriptors: the first, usually the plan's, into SlotPlan, the others into
// SlotFiles and following; if the message contains the plan, after the bytes at into, all of them into SlotFiles
// and following. It returns the number of the others and the message's size, and ends the sandbox if the server is
// gone.
//
//go:nosplit
//go:norace
//go:nocheckptr
func receivePlan(into unsafe.Pointer, size, parts uintptr) (files, received uintptr) {
	*(*uintptr)(unsafe.Pointer(&iov[0].Base)) = uintptr(into)
	*(*uintptr)(unsafe.Pointer(&iov[1].Base)) = uintptr(unsafe.Pointer(&plan))
	*(*uintptr)(unsafe.Pointer(&header.Iov)) = uintptr(unsafe.Pointer(&iov))
	*(*uintptr)(unsafe.Pointer(&header.Control)) = uintptr(unsafe.Pointer(&cmsg))
	iov[0].Len, iov[1].Len = uint64(size), MaxPlan
	header.Iovlen, header.Controllen = uint64(parts), uint64(len(cmsg))
	n, _, errno := syscall.RawSyscall(syscall.SYS_RECVMSG, slots[SlotControl], uintptr(unsafe.Pointer(&header)), syscall.MSG_CMSG_CLOEXEC)
	if errno != 0 || n == 0 {
		endSandbox()
	}
	count, first := uintptr(0), uintptr(SlotFiles)
	if cmsgHeader := (*syscall.Cmsghdr)(unsafe.Pointer(&cmsg)); header.Controllen >= syscall.SizeofCmsghdr+4 &&
		cmsgHeader.Type == syscall.SCM_RIGHTS {
		count = (uintptr(cmsgHeader.Len) - syscall.SizeofCmsghdr) / 4
	}
	slots[SlotPlan] = ^uintptr(0)
	if n <= size {
		if count == 0 {
			endSandbox()
		}
		slots[SlotPlan] = uintptr(*(*int32)(unsafe.Add(unsafe.Pointer(&cmsg), syscall.SizeofCmsghdr)))
		count, first = count-1, SlotFiles-1
	}
	for i := uintptr(0); i < count && i < MaxFiles; i++ {
		at := syscall.SizeofCmsghdr + 4*(i+SlotFiles-first)
		slots[(SlotFiles+i)%Slots] = uintptr(*(*int32)(unsafe.Add(unsafe.Pointer(&cmsg), at)))
	}
	return count, n
}

// endSandbox ends the sandbox. In a PID namespace, exiting suffices; without one, PID 1's substitute is a
// subreaper, which kills and reaps its children until there are none. A launcher's children end by themselves.
//
//go:nosplit
//go:norace
//go:nocheckptr
func endSandbox() {
	if pid, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0); pid == 1 || isTemplate {
		exit(0)
	}
	for {
		killChildren()
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), 0, 0, 0, 0, 0); errno == syscall.ECHILD {
			exit(0)
		}
	}
}

// killChildren kills the processes whose PIDs the kernel lists, separated by spaces. It is at the greatest call
// depth, and RawSyscall would take more stack than arm64's linker allows.
//
//go:nosplit
//go:norace
//go:nocheckptr
func killChildren() {
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, atCwd, uintptr(unsafe.Pointer(&childrenFile)), syscall.O_RDONLY|syscall.O_CLOEXEC,
		0, 0, 0)
	if errno != 0 {
		return
	}
	n, _, errno := syscall.RawSyscall6(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&plan)), MaxPlan, 0, 0, 0)
	syscall.RawSyscall6(syscall.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
	if errno != 0 {
		return
	}
	pid := uintptr(0)
	for i := uintptr(0); i < n && i < MaxPlan; i++ {
		if plan[i] != ' ' {
			pid = pid*10 + uintptr(plan[i]-'0')
			continue
		}
		syscall.RawSyscall6(syscall.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
		pid = 0
	}
}
