package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// messageSize is how long every message to the server is; a status has text behind it.
const messageSize = int64(unsafe.Sizeof(launch.Message{}))

// execPlan is what the process of a command follows, up to execve. The order matters: limits
// before Landlock, after which little can be opened. PID 1 has loaded the filter of system calls.
func (b *Backend) execPlan(s *sandbox, cmd backends.Command, pipes *pipes, channel *os.File) *plan {
	p := newPlan()
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
	// However many descriptors those had from whom it descends: the size of the table is told in /proc.
	p.try("dup stdin", unix.SYS_FCNTL, val(0), val(unix.F_DUPFD_CLOEXEC), val(maxStartFD))
	var private arg
	if channel != nil {
		// Descriptor 3 may be one that is still needed, such as our own way to the server.
		private = p.dupHigh("dup channel", p.file(channel))
		p.set(slot(launch.SlotControl), "dup control", unix.SYS_FCNTL, slot(launch.SlotControl), val(unix.F_DUPFD_CLOEXEC), val(minHighFD))
	}
	// PID 1 is not dumpable, and its child would find a /proc/self that belongs to root.
	p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 1)
	p.do("setsid", unix.SYS_SETSID)
	if pipes.terminal != nil {
		p.do("TIOCSCTTY", unix.SYS_IOCTL, val(0), val(unix.TIOCSCTTY), val(0))
	}
	p.do("sigprocmask", unix.SYS_RT_SIGPROCMASK, val(unix.SIG_SETMASK), value(p, uint64(0)), val(0), val(8))
	p.do("umask", unix.SYS_UMASK, val(0o022))
	limit(p, s, cmd.Main)
	// When the host runs out of memory, let it be the sandbox that pays.
	self := p.get("open oom_score_adj", unix.SYS_OPENAT, cwd, p.str("/proc/self/oom_score_adj"), val(unix.O_WRONLY|unix.O_CLOEXEC), val(0))
	p.try("write oom_score_adj", unix.SYS_WRITE, self, p.str("1000"), val(4))
	status := p.get("open status", unix.SYS_OPENAT, cwd, p.str("/proc/self/status"), val(unix.O_RDONLY|unix.O_CLOEXEC), val(0))
	dir := s.inside(cmd.Dir)
	p.do("chdir "+dir, unix.SYS_CHDIR, p.str(dir))
	if b.landlockABI > 0 {
		landlock(p, s, b.landlockABI)
	}
	filtered(p)
	p.report(status, sent...)
	first := 3
	if channel != nil {
		p.do("dup3 channel", unix.SYS_DUP3, private, val(3), val(0))
		first = 4
	}
	p.do("close_range", unix.SYS_CLOSE_RANGE, val(first), val(^uint32(0)), val(unix.CLOSE_RANGE_CLOEXEC))
	args, env := slices.Clone(cmd.Args), s.environ(cmd.Env)
	paths := s.resolve(args, env)
	argv, envp := p.strs(args), p.strs(env)
	for i, path := range paths {
		add := p.try // as execvp(3): what is not there, or may not be executed, is looked for further on
		if i == len(paths)-1 {
			add = p.do
		}
		add(execve+path, unix.SYS_EXECVE, p.str(path), argv, envp)
	}
	return p
}

// execve begins the name of a step that executes a program.
const execve = "execve "

// minHighFD is the lowest number for descriptors that must be out of the way of 0 to 3, and lastAside the highest
// number that a program's table has room for at its start.
const minHighFD, maxStartFD = 100, 255

// dupHigh makes a copy of a descriptor that no dup3 to a small number can hit.
func (p *plan) dupHigh(name string, fd arg) arg {
	return p.get(name, unix.SYS_FCNTL, fd, val(unix.F_DUPFD_CLOEXEC), val(minHighFD))
}

// inside is the working folder that a command means: in the profile "landlock" the workspace is
// elsewhere.
func (s *sandbox) inside(dir string) string {
	if dir == "" {
		dir = workspace
	}
	if s.landlockOnly && paths.Within(dir, workspace) {
		rest, _ := filepath.Rel(workspace, dir)
		return filepath.Join(s.dir, rest)
	}
	return dir
}

// namespaceLinks are read back, in this order, from /proc/self/ns.
var namespaceLinks = []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"}

// A status message is a launch.Message, then a link of linkSize bytes for each of namespaceLinks,
// then what /proc/self/status says.
const (
	linkSize   = 64
	statusSize = 4096
)

// report sends a status message: how the kernel sees the process that is about to become the program.
// With it goes the master of its terminal, if it has made one.
func (p *plan) report(status arg, fds ...arg) {
	size := int(messageSize) + linkSize*len(namespaceLinks) + statusSize
	buf := p.room(size)
	m := launch.Message{Kind: launch.Status}
	p.poke(arg{v: buf.v + uint64(unsafe.Offsetof(m.Pid))}, p.get("getpid", unix.SYS_GETPID))
	copy(p.data[buf.v:], unsafe.Slice((*byte)(unsafe.Pointer(&m)), messageSize))
	at := buf.v + uint64(messageSize)
	for _, name := range namespaceLinks {
		p.try("readlink ns/"+name, unix.SYS_READLINKAT, cwd, p.str("/proc/self/ns/"+name), arg{launch.Address, at}, val(linkSize-1))
		at += linkSize
	}
	p.want(launch.Some, "read status", unix.SYS_READ, status, arg{launch.Address, at}, val(statusSize))
	p.say("status", buf, int64(size), fds...)
}

// limit sets the limits of each process. Those of the whole tree are the cgroup's or the watcher's.
func limit(p *plan, s *sandbox, main bool) {
	const unlimited = unix.RLIM_INFINITY
	seconds := uint64(s.limits.Wall.Seconds()*max(1, s.limits.CPU)) + 2
	if main { // what it may use is for whoever keeps it to say
		seconds = unlimited
	}
	// Where the sandbox has a file system of its own, that bounds what it writes, and files with holes are no harm. In a
	// folder of the host this is only against an accident.
	file, maxFile := uint64(s.limits.Disk)+1<<20, uint64(unlimited)
	switch {
	case s.landlockOnly:
		maxFile = file
	case !s.writesHost():
		file = unlimited
	}
	// Where a cgroup counts, let it be the one that refuses, because it tells.
	tasks := s.tasks
	switch {
	case s.shared() && s.cgroup.Enforces("pids"): // the user is other sandboxes', too: only the cgroup's count is of this one
		tasks = unix.RLIM_INFINITY - 1
	case s.shared(): // without a user namespace, the kernel counts all that the user runs
		tasks += threadsOf(s.hostUID())
	case s.cgroup.Enforces("pids"):
		tasks += 8
	}
	for _, l := range []struct {
		name       string
		id         int
		soft, hard uint64
	}{
		{"CPU", unix.RLIMIT_CPU, seconds, unlimited}, // a program may have more: wall time and cores bound it
		{"FSIZE", unix.RLIMIT_FSIZE, file, maxFile},
		// Open files are counted for the whole host (fs.file-max), and each process has as many as that: the usual 1,024 with the
		// default number of processes in any language.
		{"NOFILE", unix.RLIMIT_NOFILE, 1024, max(256, min(4096, 288<<10/s.tasks))},
		{"NPROC", unix.RLIMIT_NPROC, tasks, tasks},
		// 1 is the kernel's word for no dump at all: with 0, a core_pattern that begins with a pipe still hands the memory, and
		// lent secrets in it, to a program of the host's root: core(5).
		{"CORE", unix.RLIMIT_CORE, 1, 1},
		// Signals that wait, and timers, are counted for the user, and an ordinary user's sandboxes are one.
		{"SIGPENDING", unix.RLIMIT_SIGPENDING, 1024, 1024},
		// Address space that is reserved and never touched is no harm, and runtimes reserve a lot
		// (8 MiB for each thread's stack): this only ends what grows faster than the watcher looks.
		{"DATA", unix.RLIMIT_DATA, s.data(), s.data()},
		{"MSGQUEUE", unix.RLIMIT_MSGQUEUE, 819200, 819200},
		{"MEMLOCK", unix.RLIMIT_MEMLOCK, 64 << 10, 64 << 10},
		{"RTPRIO", unix.RLIMIT_RTPRIO, 0, 0},
	} {
		r := s.within(l.id, unix.Rlimit{Cur: l.soft, Max: l.hard})
		p.do("setrlimit "+l.name, unix.SYS_PRLIMIT64, val(0), val(l.id), value(p, r), val(0))
	}
}

// writesHost says whether a folder of the host is shown for writing.
func (s *sandbox) writesHost() bool {
	return s.host.Write || slices.ContainsFunc(s.mounts, func(m backends.Mount) bool { return m.Write })
}

// data is RLIMIT_DATA: four times the RAM limit, and at least 4 GiB. Where no cgroup bounds what is taken between two looks,
// and the limit can't be raised later, it is that and 1 GiB, of which Node reserves about 150 MB at its start and Java 500, or
// the stacks of as many threads as there may be, 8 MiB each, where those are more.
func (s *sandbox) data() uint64 {
	if !s.cgroup.Enforces("memory") && !s.keep {
		return uint64(s.limits.RAM) + max(1<<30, s.tasks<<23)
	}
	return max(4*uint64(s.limits.RAM), 4<<30)
}

// within keeps r below our own hard limit, which a process without privilege can't raise.
func (s *sandbox) within(id int, r unix.Rlimit) unix.Rlimit {
	var own unix.Rlimit
	if unix.Getrlimit(id, &own) == nil {
		r.Max = min(r.Max, own.Max)
		r.Cur = min(r.Cur, r.Max)
	}
	return r
}

// resolve replaces args[0], where it is a runtime's name, and returns the places inside where the program may be.
func (s *sandbox) resolve(args, env []string) []string {
	name := args[0]
	for _, r := range append(slices.Clone(s.joined), s.runtime) {
		own := name == r.Name && (s.joined == nil || name == "python" || name == "node") // "r" is another program
		if own || name == "bash" && r.Name == "shell" {
			args[0] = r.Argv0
			if filepath.IsAbs(args[0]) {
				return []string{args[0]}
			}
			return []string{r.Path}
		}
	}
	if strings.Contains(name, "/") {
		return []string{s.inside(name)}
	}
	var places []string
	for dir := range strings.SplitSeq(searchPath(env), ":") {
		if dir != "" { // or else it is the working folder
			dir = s.inside(dir)
		}
		places = append(places, filepath.Join(dir, name))
	}
	return places
}

// searchPath is the PATH of an environment.
func searchPath(env []string) (path string) {
	for _, kv := range env {
		if p, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = p
		}
	}
	return path
}

// notExecuted makes an error of a program that says what is wrong with it, if its execve has failed.
func (s *sandbox) notExecuted(cmd backends.Command, err error) error {
	var failed *stepError
	if !errors.As(err, &failed) || !strings.HasPrefix(failed.step, execve) {
		return err
	}
	no := &backends.NoProgram{Name: cmd.Args[0], Reason: failed.errno.Error()}
	switch failed.errno {
	case unix.ENOENT, unix.ENOTDIR, unix.ENAMETOOLONG, unix.ELOOP:
	case unix.EACCES, unix.ENOEXEC, unix.EISDIR:
		no.Found = strings.Contains(no.Name, "/") // or else a folder of PATH may be closed
	default:
		return err
	}
	if !strings.Contains(no.Name, "/") {
		no.Path = searchPath(s.environ(cmd.Env))
	}
	return no
}

func (s *sandbox) path() string {
	return strings.Join(append(slices.Clone(s.runtime.PathDirs), runtimes.SystemPath), ":")
}

// environ is the program's whole environment. Caches and settings go to /tmp, so that what is
// left in the workspace is what the program made.
func (s *sandbox) environ(extra []string) []string {
	home, tmp := workspace, "/tmp"
	if s.landlockOnly {
		home, tmp = s.dir, s.tmp
	}
	// Numeric libraries start a thread for each CPU of the machine, which the limits may not allow.
	threads := strconv.Itoa(max(1, int(s.limits.CPU)))
	env := []string{
		"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads,
		"PATH=" + s.path(), "HOME=" + home, "USER=sandbox", "LOGNAME=sandbox", "SHELL=/bin/sh",
		"LANG=C.UTF-8", "TMPDIR=" + tmp, "XDG_CACHE_HOME=" + tmp + "/.cache", "XDG_CONFIG_HOME=" + tmp + "/.config",
		"npm_config_cache=" + tmp + "/.npm",
		"PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1",
	}
	if s.landlockOnly { // or git sees the host's settings, may not read them, and gives up
		env = append(env, "GIT_CONFIG_NOSYSTEM=1")
	}
	return merge(env, extra)
}

// merge adds extra to env; what comes later is stronger, and a name appears once.
func merge(env, extra []string) []string {
	at := map[string]int{}
	var out []string
	for _, kv := range append(slices.Clone(env), extra...) {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}
