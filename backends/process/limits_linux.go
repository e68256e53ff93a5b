package process

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// boundsOf converts a sandbox's limits. The program's files are charged to the cgroup, too: its limit bounds both
// together, and the watcher enforces the lower limit for RAM alone.
func boundsOf(l backends.Limits, tasks uint64) cgroup.Bounds {
	return cgroup.Bounds{Memory: l.RAM + l.Disk, Sockets: l.RAM, CPU: l.CPU, Tasks: int64(tasks)}
}

// setLimits sets the limits of each process. The cgroup or the watcher enforces those of the whole tree.
func setLimits(p *plan, s *Sandbox, lasting bool) {
	const unlimited = unix.RLIM_INFINITY
	seconds := uint64(s.limits.Wall.Seconds()*max(1, s.limits.CPU)) + 2
	if lasting { // the session's own limits bound it
		seconds = unlimited
	}
	// If the sandbox has a file system of its own, that bounds its files, and sparse files are harmless. In a
	// directory of the host this only prevents accidents.
	file, maxFile := uint64(s.limits.Disk)+1<<20, uint64(unlimited)
	switch {
	case s.landlockOnly:
		maxFile = file
	case !s.writesHost():
		file = unlimited
	}
	// If a cgroup counts tasks, it should be the one that refuses, because it reports refusals.
	tasks := s.tasks
	switch {
	case !s.HasNamespaces() && s.cgroup.Enforces("pids"): // the user has other sandboxes, too: only the cgroup counts this one's
		tasks = unix.RLIM_INFINITY - 1
	case !s.HasNamespaces(): // without a user namespace, the kernel counts all processes of the user
		tasks += threadsOf(s.hostUID())
	case s.cgroup.Enforces("pids"):
		tasks += 8
	}
	for _, l := range []struct {
		name       string
		id         int
		soft, hard uint64
	}{
		{"CPU", unix.RLIMIT_CPU, seconds, unlimited}, // a program may raise it: wall time and cores bound it
		{"FSIZE", unix.RLIMIT_FSIZE, file, maxFile},
		// Open files count for the whole host (fs.file-max), and each process may have this number: the usual 1,024
		// with the default number of processes in any language.
		{"NOFILE", unix.RLIMIT_NOFILE, 1024, max(256, min(4096, 288<<10/s.tasks))},
		{"NPROC", unix.RLIMIT_NPROC, tasks, tasks},
		// 1 means no core dump at all to the kernel: with 0, a core_pattern that begins with a pipe still passes
		// the memory, including leased secrets, to a program of the host's root: core(5).
		{"CORE", unix.RLIMIT_CORE, 1, 1},
		// Pending signals and timers count for the user, and all sandboxes of an ordinary user share one.
		{"SIGPENDING", unix.RLIMIT_SIGPENDING, 1024, 1024},
		// Reserved but untouched address space is harmless, and runtimes reserve a lot (8 MiB for each thread's
		// stack): this only ends programs that grow faster than the watcher polls.
		{"DATA", unix.RLIMIT_DATA, s.dataLimit(), s.dataLimit()},
		{"MSGQUEUE", unix.RLIMIT_MSGQUEUE, 819200, 819200},
		{"MEMLOCK", unix.RLIMIT_MEMLOCK, 64 << 10, 64 << 10},
		{"RTPRIO", unix.RLIMIT_RTPRIO, 0, 0},
	} {
		r := s.capRlimit(l.id, unix.Rlimit{Cur: l.soft, Max: l.hard})
		p.do("setrlimit "+l.name, unix.SYS_PRLIMIT64, val(0), val(l.id), value(p, r), val(0))
	}
}

// dataLimit returns RLIMIT_DATA: unlimited if a cgroup bounds the memory, since sanitizers reserve terabytes.
// Otherwise nothing bounds memory between two polls, and it is the RAM limit and 1 GiB, of which Node reserves
// about 150 MB at its start and Java 500, or the stacks of all threads, 8 MiB each, if those are more; and four
// times the RAM limit, or 4 GiB, if the limit can be raised later.
func (s *Sandbox) dataLimit() uint64 {
	switch {
	case s.cgroup.Enforces("memory"):
		return unix.RLIM_INFINITY
	case s.keep:
		return max(4*uint64(s.limits.RAM), 4<<30)
	}
	return uint64(s.limits.RAM) + max(1<<30, s.tasks<<23)
}

// capRlimit limits r to the server's own hard limit, which an unprivileged process can't raise.
func (s *Sandbox) capRlimit(id int, r unix.Rlimit) unix.Rlimit {
	var own unix.Rlimit
	if unix.Getrlimit(id, &own) == nil {
		r.Max = min(r.Max, own.Max)
		r.Cur = min(r.Cur, r.Max)
	}
	return r
}

// threadsOf counts a user's threads on this host.
func threadsOf(uid int) uint64 {
	var sum uint64
	names, _ := filepath.Glob("/proc/[1-9]*/status")
	for _, name := range names {
		text, _ := procfs.Read(name)
		if real, _, _ := strings.Cut(procfs.StatusField(text, "Uid"), "\t"); real == strconv.Itoa(uid) {
			n, _ := strconv.ParseUint(procfs.StatusField(text, "Threads"), 10, 32)
			sum += n
		}
	}
	return sum
}

// checkCgroup discards a container's cgroup that was created for another purpose.
func (s *Sandbox) checkCgroup() {
	if s.inContainer && s.cgroup != nil && !s.cgroup.MatchesLimits(s.limits.RAM, s.limits.Disk) {
		s.cgroup, s.backend.cgroups.Why = nil, cgroup.ErrUnlimited.Error()
	}
}

// Cgroup returns the limits that the cgroup of this process's container enforces (Config.Inside): "v1: memory pids
// cpu"; "" if there are none.
func (b *Backend) Cgroup() string {
	g, err := cgroup.ContainerGroup()
	if err != nil {
		return ""
	}
	return g.Detail()
}

// disks are the writable directories of a container, each a file system of its own, except a workspace that is a
// host directory.
var disks = []string{workspace, "/tmp", "/dev/shm"}

// maxFiles bounds the number of files in each of disks, also if the engine could not be configured to: a hardened
// sandbox has the same bound.
const maxFiles = 256 << 10

// diskUsed returns the bytes used in the sandbox's file systems.
func (s *Sandbox) diskUsed() int64 {
	if s.landlockOnly {
		return s.dirsUsed()
	}
	return usedBytes(s.statDisks())
}

// usedBytes returns the total bytes used in file systems.
func usedBytes(disks []unix.Statfs_t) (sum int64) {
	for _, st := range disks {
		sum += int64(st.Blocks-st.Bfree) * st.Bsize
	}
	return sum
}

// diskFull reports whether one of the sandbox's file systems is full.
func (s *Sandbox) diskFull() bool {
	return slices.ContainsFunc(s.statDisks(), func(st unix.Statfs_t) bool { return st.Type == unix.TMPFS_MAGIC && st.Bfree == 0 })
}

// statDisks returns the state of the sandbox's file systems; zero values once they are closed.
func (s *Sandbox) statDisks() []unix.Statfs_t {
	if !s.inContainer {
		st := make([]unix.Statfs_t, 1)
		if conn, err := s.disk.SyscallConn(); err == nil {
			conn.Control(func(fd uintptr) { unix.Fstatfs(int(fd), &st[0]) })
		}
		return st
	}
	names := disks
	if s.host.Host != "" {
		names = disks[1:]
	}
	if s.home != "" {
		names = append(slices.Clone(names), s.home)
	}
	st := make([]unix.Statfs_t, len(names))
	for i, name := range names {
		unix.Statfs(name, &st[i])
	}
	return st
}

// dirsUsed adds up the size of the files in the sandbox's own directories, in bytes.
func (s *Sandbox) dirsUsed() int64 {
	const inode = 1 << 10 // otherwise empty files could use up the host's inodes, and slow down each poll
	var sum int64
	filepath.WalkDir(s.hostDir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += max(info.Sys().(*syscall.Stat_t).Blocks*512, inode)
		}
		return nil
	})
	return sum
}

// diskExceeded reports whether the disk limit is exceeded.
func (s *Sandbox) diskExceeded() bool {
	if s.landlockOnly {
		return s.dirsUsed() > s.limits.Disk
	}
	// A full file system must report ENOSPC, although another one has a little space left.
	const slack = 4 << 20
	disks := s.statDisks()
	return usedBytes(disks) > s.limits.Disk+slack ||
		slices.ContainsFunc(disks, func(st unix.Statfs_t) bool { return st.Files-st.Ffree > maxFiles })
}
