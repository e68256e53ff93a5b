package process

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// execPlan returns the plan of a command's process, up to execve. The order matters: limits before Landlock, after
// which few files can be opened. PID 1 has loaded the seccomp filter.
func (b *Backend) execPlan(s *Sandbox, cmd backends.Command, pipes *pipes, channel *os.File) *plan {
	p := newPlan(88)
	var ends [3]arg
	var sent []arg
	if pipes.terminal != nil {
		master, slave := p.openTerminal(pipes.terminal.Size)
		ends, sent = [3]arg{slave, slave, slave}, []arg{master}
	} else {
		for i, f := range pipes.theirs {
			ends[i] = p.file(f)
		}
	}
	for i, end := range ends {
		p.do("dup3", unix.SYS_DUP3, end, val(i), val(0))
	}
	// The table's size, which /proc shows, must not depend on the ancestors' descriptors.
	p.try("dup stdin", unix.SYS_FCNTL, val(0), val(unix.F_DUPFD_CLOEXEC), val(maxStartFD))
	var private arg
	if channel != nil {
		// Descriptor 3 may still be in use, such as for the socket to the server.
		private = p.get("dup channel", unix.SYS_FCNTL, p.file(channel), val(unix.F_DUPFD_CLOEXEC), val(minHighFD))
		p.set(slot(launch.SlotControl), "dup control", unix.SYS_FCNTL, slot(launch.SlotControl), val(unix.F_DUPFD_CLOEXEC), val(minHighFD))
	}
	// PID 1 is not dumpable, and its child's /proc/self would belong to root.
	p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 1)
	p.do("setsid", unix.SYS_SETSID)
	if pipes.terminal != nil {
		p.do("TIOCSCTTY", unix.SYS_IOCTL, val(0), val(unix.TIOCSCTTY), val(0))
	}
	p.do("sigprocmask", unix.SYS_RT_SIGPROCMASK, val(unix.SIG_SETMASK), value(p, uint64(0)), val(0), val(8))
	p.do("umask", unix.SYS_UMASK, val(0o022))
	setLimits(p, s, cmd.Lasting())
	// If the host runs out of memory, the sandbox should be killed first.
	self := p.get("open oom_score_adj", unix.SYS_OPENAT, cwd, p.str("/proc/self/oom_score_adj"), val(unix.O_WRONLY|unix.O_CLOEXEC), val(0))
	p.try("write oom_score_adj", unix.SYS_WRITE, self, p.str("1000"), val(4))
	status := p.get("open status", unix.SYS_OPENAT, cwd, p.str("/proc/self/status"), val(unix.O_RDONLY|unix.O_CLOEXEC), val(0))
	dir := s.insidePath(cmd.Dir)
	p.do("chdir "+dir, unix.SYS_CHDIR, p.str(dir))
	if b.landlockABI > 0 {
		restrict(p, s, b.landlockABI)
	}
	checkFilter(p, s.noInternet())
	p.sendStatus(status, sent...)
	first := 3
	if channel != nil {
		p.do("dup3 channel", unix.SYS_DUP3, private, val(3), val(0))
		first = 4
	}
	p.do("close_range", unix.SYS_CLOSE_RANGE, val(first), val(^uint32(0)), val(unix.CLOSE_RANGE_CLOEXEC))
	args, env := slices.Clone(cmd.Args), s.Environ(cmd.Env)
	paths := s.resolve(args, env)
	argv, envp := p.strs(args), p.strs(env)
	for i, path := range paths {
		add := p.try // as execvp(3): a missing or unexecutable file is searched for in the next directory
		if i == len(paths)-1 {
			add = p.do
		}
		add(execve+path, unix.SYS_EXECVE, p.str(path), argv, envp)
	}
	return p
}

// execve begins the name of a step that executes a program.
const execve = "execve "

// noProgram returns a NoProgram error if the program's execve has failed.
func (s *Sandbox) noProgram(cmd backends.Command, err error) error {
	failed, is := errors.AsType[*stepError](err)
	if !is || !strings.HasPrefix(failed.step, execve) {
		return err
	}
	no := &backends.NoProgram{Name: cmd.Args[0], Reason: failed.errno.Error()}
	switch failed.errno {
	case unix.ENOENT, unix.ENOTDIR, unix.ENAMETOOLONG, unix.ELOOP:
	case unix.EACCES, unix.ENOEXEC, unix.EISDIR:
		no.Found = strings.Contains(no.Name, "/") // otherwise a directory of PATH may be closed
	default:
		return err
	}
	if !strings.Contains(no.Name, "/") {
		no.Path = searchPath(s.Environ(cmd.Env))
	}
	return no
}

// CheckCommand refuses arguments that execve does not accept.
func CheckCommand(cmd backends.Command) error {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return errors.New("no command")
	}
	for _, s := range slices.Concat(cmd.Args, cmd.Env, []string{cmd.Dir}) {
		if strings.ContainsRune(s, 0) {
			return errors.New("an argument, an environment variable or the working directory contains a NUL byte")
		}
	}
	for _, kv := range cmd.Env {
		if i := strings.IndexByte(kv, '='); i <= 0 {
			return errors.New("an environment variable is not of the form KEY=VALUE")
		}
	}
	return nil
}
