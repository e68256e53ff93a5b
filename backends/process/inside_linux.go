package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	cg "github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// boxSetup is the plan of PID 1's stand-in inside a container (Config.Inside). As in the profile
// "landlock" there are no namespaces of our own and the stand-in is a subreaper; but what is around it is
// the container's alone, so that it may listen there, and its folders are those of a hardened sandbox.
func (b *Backend) boxSetup(s *sandbox) *plan {
	p := newPlan()
	p.prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)
	doors := listeners(p, s.sockets)
	segments := "/proc/sysvipc/shm"
	if _, err := os.Stat(segments); err != nil {
		segments = os.DevNull
	}
	settle(p, workspace, segments, "/tmp", doors...)
	return p
}

// disks are the folders of a container that programs can write to, each a file system of its own.
var disks = []string{workspace, "/tmp", "/dev/shm"}

// disksUsed is how many bytes they hold together. A workspace that is the host's does not count.
func (s *sandbox) disksUsed() int64 {
	var sum int64
	for _, dir := range s.disks() {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			sum += int64(st.Blocks-st.Bfree) * st.Bsize
		}
	}
	return sum
}

func (s *sandbox) disks() []string {
	if s.host.Host != "" {
		return disks[1:]
	}
	return disks
}

// aDiskFull says whether one of them has no room left.
func (s *sandbox) aDiskFull() bool {
	for _, dir := range s.disks() {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC && st.Bfree == 0 {
			return true
		}
	}
	return false
}

// mostFiles is how many names the folders may hold each, also where the engine could not be told to bound
// them: as many as a hardened sandbox's.
const mostFiles = 256 << 10

// tooManyFiles says whether one holds more.
func (s *sandbox) tooManyFiles() bool {
	for _, dir := range s.disks() {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Files-st.Ffree > mostFiles {
			return true
		}
	}
	return false
}

// lookInside sees the container's cgroup without ourselves: the container's PID 1 and the launcher
// are in it, too.
func (s *sandbox) lookInside(int64) sight {
	return sight{ram: s.cgroup.anonymous() - s.disksUsed() - s.ourselves()}
}

// ourselves is what PID 1, the launcher and the stand-in hold, in bytes.
func (s *sandbox) ourselves() int64 {
	sum := kib(statusFields(s.read("self/status"))["RssAnon"])
	for _, pid := range s.backend.launchers.pids() {
		sum += kib(statusFields(s.read(pid + "/status"))["RssAnon"])
	}
	return sum
}

// viewed returns the cgroup that a container's processes are in, to be read and not changed; or nil
// and the reason why it keeps no limits of theirs.
func viewed() (*cgroup, error) {
	g := &cgroup{paths: map[string]string{}, seen: true}
	if cg.IsCgroup2UnifiedMode() {
		g.paths[""] = "/sys/fs/cgroup"
		return g, g.readLimits()
	}
	mounts, err := cg.GetCgroupMounts(false)
	if err != nil {
		return nil, err
	}
	own, err := cg.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		for _, name := range m.Subsystems {
			// Without a cgroup namespace, the engine mounts our own folder, and its root is as long as our path.
			if rel, err := filepath.Rel(m.Root, own[name]); err == nil && !strings.HasPrefix(rel, "..") {
				g.paths[name] = filepath.Join(m.Mountpoint, rel)
			}
		}
	}
	for _, name := range controllers {
		if g.paths[name] == "" {
			return nil, errors.New("the container sees no cgroup v1 controller " + name)
		}
	}
	return g, g.readLimits()
}

var errUnlimited = errors.New("the engine has set no limits for the container")

// readLimits finds out which limits of a container's cgroup there are. An engine that may not make a cgroup leaves its
// containers in another, which as a rule has none, and whose counters are of others, too. Of an ordinary user's engines
// some may limit memory and processes, and not CPU time.
func (g *cgroup) readLimits() error {
	const none = 1 << 60 // v1 says a large number of bytes, and -1 microseconds; v2 says "max"
	for _, l := range []struct{ controller, v1, v2 string }{
		{"memory", "memory.limit_in_bytes", "memory.max"}, {"pids", "pids.max", "pids.max"}, {"cpu", "cpu.cfs_quota_us", "cpu.max"},
	} {
		value, _, _ := strings.Cut(strings.TrimSpace(g.read(l.controller, l.v1, l.v2)), " ") // v2's cpu.max has the period behind it
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > 0 && n < none {
			g.limits = append(g.limits, l.controller)
		}
	}
	if !g.keeps("memory") {
		return errUnlimited
	}
	return nil
}

// madeFor says whether the limit of memory is that of a sandbox with these limits. In a cgroup that is limited for
// another reason, as a service with the engine in it may be, everything counts that is beside the container.
func (g *cgroup) madeFor(l backends.Limits) bool {
	const most = 256 << 20 // what the engine grants the init besides
	n := g.number("memory", "memory.limit_in_bytes", "memory.max") - l.RAM - l.Disk
	return n > -1<<20 && n < most // the kernel rounds to pages
}

// checkCgroup forgets a container's cgroup that was not made for it.
func (s *sandbox) checkCgroup() {
	if s.boxed && s.cgroup != nil && !s.cgroup.madeFor(s.limits) {
		s.cgroup, s.backend.cgroups.why = nil, errUnlimited.Error()
	}
}

// Cgroup says what is limited for the container in which this process is: "v1: memory pids cpu"; "" if nothing is.
func Cgroup() string {
	g, err := viewed()
	if err != nil {
		return ""
	}
	return g.detail()
}

// slack is how far the folders of a container may be past the limit together: one that is full to the
// last byte must be told so (ENOSPC), although there is a little in another.
func (s *sandbox) slack() int64 {
	if s.boxed {
		return 4 << 20
	}
	return 0
}

// Runtime is the interpreter for a language, found once, without its version; the reason stands in Why where
// there is none.
func (b *Backend) Runtime(ctx context.Context, language string) backends.Runtime {
	r, err := b.runtime(ctx, language)
	if err != nil {
		return backends.Runtime{Name: language, Why: err.Error()}
	}
	return backends.Runtime{Name: language, Path: r.Path, Why: r.Why}
}
