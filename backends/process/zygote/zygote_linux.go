// Package zygote is a Python interpreter that has started once and is forked for each program: the Python part,
// which the process backend puts into the interpreter's path.
//
// Python imports sitecustomize at the end of its own start, when its environment is complete and nothing of the
// program has been read. Our sitecustomize stops there, and serves the same requests as package launch's launcher
// and PID 1: it forks a process into new namespaces, which executes the server's plans as PID 1 of a sandbox, and
// that forks the program's process, which executes its plan up to execve. Instead of execve it waits for its
// arguments and environment, and returns from sitecustomize: Python continues, and runs the script.
package zygote

import (
	"embed"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// File is the name of the file in a directory of PYTHONPATH under which Python finds the code.
const File = "sitecustomize.pyc"

// Private is the descriptor on which a program's process receives its arguments and environment.
const Private = 3

//go:embed *.py
var files embed.FS

// Source returns the Python source.
func Source() string {
	var b strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&b, "%s = %d\n", n.name, n.value)
	}
	for _, name := range []string{"calls", "plans", "post", "init", "assignment", "prefault", "leave", "serve"} {
		text, err := files.ReadFile(name + ".py")
		if err != nil {
			panic(err) // the file is embedded
		}
		b.Write(text)
	}
	return b.String()
}

// numbers are constants that differ between architectures, or that come from package launch.
var numbers = []struct {
	name  string
	value int64
}{
	{"SYS_RECVMSG", unix.SYS_RECVMSG},
	{"SYS_SENDMSG", unix.SYS_SENDMSG},
	{"SYS_SIGNALFD4", unix.SYS_SIGNALFD4},
	{"SYS_PPOLL", unix.SYS_PPOLL},
	{"SYS_WAIT4", unix.SYS_WAIT4},
	{"SYS_CLONE", unix.SYS_CLONE},
	{"SYS_CLONE3", unix.SYS_CLONE3},
	{"SYS_RT_SIGACTION", unix.SYS_RT_SIGACTION},
	{"SYS_RT_SIGPROCMASK", unix.SYS_RT_SIGPROCMASK},
	{"SYS_MMAP", unix.SYS_MMAP},
	{"SYS_BRK", unix.SYS_BRK},
	{"SYS_PRCTL", unix.SYS_PRCTL},
	{"SYS_CLOSE_RANGE", unix.SYS_CLOSE_RANGE},
	{"SYS_EXECVE", unix.SYS_EXECVE},
	{"MSG_CMSG_CLOEXEC", unix.MSG_CMSG_CLOEXEC},
	{"MSG_NOSIGNAL", unix.MSG_NOSIGNAL},
	{"SOL_SOCKET", unix.SOL_SOCKET},
	{"SCM_RIGHTS", unix.SCM_RIGHTS},
	{"SYS_FCNTL", unix.SYS_FCNTL},
	{"O_CLOEXEC", unix.O_CLOEXEC},
	{"ECHILD", int64(unix.ECHILD)},
	{"SIGCHLD", int64(unix.SIGCHLD)},
	{"PR_SET_MM", unix.PR_SET_MM},
	{"PR_SET_MM_MAP", unix.PR_SET_MM_MAP},
	{"CLONE_PIDFD", unix.CLONE_PIDFD},
	{"CLONE_INTO_CGROUP", unix.CLONE_INTO_CGROUP},
	{"POKE", launch.Poke},
	{"ADDRESS", launch.Address},
	{"SLOT", launch.Slot},
	{"ANY_ERRNO", launch.AnyErrno},
	{"SOME", launch.Some},
	{"SLOTS", launch.Slots},
	{"SLOT_CONTROL", launch.SlotControl},
	{"SLOT_FILES", launch.SlotFiles},
	{"FOR_INIT", launch.ForInit},
	{"FOR_PROGRAM", launch.ForProgram},
	{"SYS_UNSHARE", unix.SYS_UNSHARE},
	{"SYS_MOUNT", unix.SYS_MOUNT},
	{"SYS_MADVISE", unix.SYS_MADVISE},
	{"CLONE_NEWNS", unix.CLONE_NEWNS},
	{"SYS_WAITID", unix.SYS_WAITID},
	{"READY", launch.Ready},
	{"FAILED", launch.Failed},
	{"EXITED", launch.Exited},
	{"MESSAGE_SIZE", int64(unsafe.Sizeof(launch.Message{}))},
	{"SOCK", launch.Sock},
	{"PRIVATE", Private},
}
