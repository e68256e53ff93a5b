package process

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// A hardened sandbox shows its limits where runtimes look for them. The files are on a tmpfs of their own, and are
// bound read-only to the paths that programs read, before the limits are known, since that takes longer than the
// rest of a start. The server keeps a descriptor of the first mount, which no process of the sandbox can reach, and
// writes to it.
const limitsAt = hiddenDisk + "/limits"

// visible is the server's state of those files.
type visible struct {
	dir *os.File // nil if nothing can be mounted

	mu      sync.Mutex        // guards the fields below
	texts   map[string]string // by path, as written, or as expected before
	begun   time.Time         // start of the sandbox
	written time.Time
	used    int64         // bytes of RAM, as written
	cpu     time.Duration // as written
}

// hostFiles are the host's /proc files from which a sandbox's are made. The used parts do not change while the
// machine runs.
var hostFiles = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	for _, name := range []string{"cpuinfo", "stat"} {
		text, _ := os.ReadFile("/proc/" + name)
		texts[name] = string(text)
	}
	return texts
})

// visibleLimits are the limits that programs see.
type visibleLimits struct {
	ram    int64
	cpu    float64
	tasks  uint64
	cgroup bool // the sandbox has a cgroup
}

// processors returns the number of visible processors.
func (l visibleLimits) processors() int { return backends.Cores(l.cpu, runtime.NumCPU()) }

// lastVisible has the files of the last started sandbox. A prespawned process shows them: the next sandbox is
// likely to have the same limits, and otherwise writes its own.
type lastVisible struct {
	mu     sync.Mutex
	limits visibleLimits
	files  map[string]string // texts by path; never modified
}

// filesFor returns the files for l.
func (s *lastVisible) filesFor(l visibleLimits, g *cgroup.Group) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil || s.limits != l {
		s.limits, s.files = l, l.files(g.Hierarchies())
	}
	return s.files
}

// expected returns the files for the next sandbox.
func (s *lastVisible) expected(g *cgroup.Group) map[string]string {
	s.mu.Lock()
	l := s.limits
	s.mu.Unlock()
	if l == (visibleLimits{}) || l.cgroup != (g != nil) {
		d := backends.DefaultLimits
		l = visibleLimits{d.RAM, d.CPU, uint64(backends.MaxTasks("", d.Processes)), g != nil}
	}
	return s.filesFor(l, g)
}

// files returns the texts of the files by path. The set of paths does not depend on the limits.
func (l visibleLimits) files(hierarchies []cgroup.Hierarchy) map[string]string {
	n := l.processors()
	host := hostFiles()
	files := map[string]string{"proc/meminfo": backends.MemInfo(l.ram, 0), "proc/stat": backends.ProcStat(host["stat"], n, 0, 0)}
	if backends.CPUInfo(host["cpuinfo"], runtime.NumCPU()) != "" {
		files["proc/cpuinfo"] = backends.CPUInfo(host["cpuinfo"], n)
	}
	for _, name := range []string{"online", "possible", "present"} {
		files["sys/devices/system/cpu/"+name] = cpuList(n)
	}
	for _, h := range hierarchies {
		for name, text := range l.madeUpFiles(h.Controllers) {
			if h.Shared || slices.Contains(h.Covers, name) {
				files[h.Dir+"/"+name] = text
			}
		}
	}
	return files
}

// cpuList returns the list of n processors in the format of cpuset(7).
func cpuList(n int) string {
	if n == 1 {
		return "0\n"
	}
	return "0-" + strconv.Itoa(n-1) + "\n"
}

// madeUpFiles returns files of a cgroup with the sandbox's limits by name: of these controllers of version 1, or of
// version 2 if there are none.
func (l visibleLimits) madeUpFiles(controllers []string) map[string]string {
	ram, cpus := limitText(l.ram), cpuList(l.processors())
	quota, tasks := strconv.Itoa(max(1000, int(l.cpu*100_000))), strconv.FormatUint(l.tasks, 10)+"\n"
	if len(controllers) == 0 {
		return map[string]string{
			"cgroup.controllers": "cpuset cpu memory pids\n",
			"memory.max":         ram, "memory.high": "max\n", "memory.current": numberText(0),
			"memory.swap.max": "0\n", "memory.swap.current": "0\n",
			"cpu.max": quota + " 100000\n", "cpu.stat": cpuStat(0), "cpuset.cpus.effective": cpus, "cpuset.mems.effective": "0\n", "pids.max": tasks,
		}
	}
	files := map[string]string{}
	for _, c := range controllers {
		maps.Copy(files, map[string]map[string]string{
			"memory": {"memory.limit_in_bytes": ram, "memory.memsw.limit_in_bytes": ram, "memory.usage_in_bytes": numberText(0),
				"memory.use_hierarchy": "1\n", "memory.stat": "hierarchical_memory_limit " + ram},
			"cpu":     {"cpu.cfs_quota_us": quota + "\n", "cpu.cfs_period_us": "100000\n", "cpu.shares": "1024\n"},
			"cpuacct": {"cpuacct.usage": numberText(0)},
			"cpuset":  {"cpuset.cpus": cpus, "cpuset.effective_cpus": cpus, "cpuset.mems": "0\n", "cpuset.effective_mems": "0\n"},
			"pids":    {"pids.max": tasks},
		}[c])
	}
	return files
}

// limitText returns a file's text for a limit in bytes.
func limitText(n int64) string { return strconv.FormatInt(n, 10) + "\n" }

// numberText returns a file's text for a changing number. All texts have the same length, see refresh.
func numberText(n int64) string { return fmt.Sprintf("%-20d\n", n) }

// cpuStat returns the text of a made-up cpu.stat.
func cpuStat(used time.Duration) string {
	us := used.Microseconds()
	return fmt.Sprintf("usage_usec %-20d\nuser_usec %-20d\nsystem_usec %-20d\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", us, us, 0)
}

// readyWithLimits makes the files of child, still empty, below base, the root directory that is being set up, and
// sends the ready message with a descriptor of them.
func readyWithLimits(p *plan, child *Init, base string) {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	own, hierarchies := base+limitsAt, child.cgroup.Hierarchies()
	names := slices.AppendSeq(make([]string, 0, len(child.visible.texts)), maps.Keys(child.visible.texts))
	slices.Sort(names)
	p.mountTmpfs(own, "mode=755,size=1m,nr_inodes=256", flags)
	fd := p.get("open the limits to be seen", unix.SYS_OPENAT, cwd, p.str(own), val(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), val(0))
	makeVisible(p, own, names, hierarchies)
	bind := func(name string) {
		p.do("show /"+name, unix.SYS_MOUNT, p.str(own, "/", name), p.str(base, "/", name), val(0), val(unix.MS_BIND), val(0))
	}
	p.do("show "+own, unix.SYS_MOUNT, p.str(own), p.str(own), val(0), val(unix.MS_BIND), val(0))
	p.setMountAttr(own, 0, unix.MOUNT_ATTR_RDONLY) // also applies to later mounts of it
	bind("sys")
	for _, h := range hierarchies {
		// If the kernel forbids this mount, the covering files exist alone. A JVM reads the mount list first and
		// then the files: it finds the kernel's file system in the list, although it is covered.
		p.try("mount /"+h.Dir, unix.SYS_MOUNT, p.str(h.Type), p.str(base, "/", h.Dir), p.str(h.Type), val(unix.MS_RDONLY|flags), p.str(h.Name))
		if h.Shared {
			bind(h.Dir)
		}
		for _, name := range h.Covers {
			bind(h.Dir + "/" + name)
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "proc/") {
			bind(name)
		}
	}
	p.sendReady(fd)
	p.do("close a passed descriptor", unix.SYS_CLOSE, fd)
}

// makeVisible makes the files, and the directories of the hierarchies.
func makeVisible(p *plan, own string, names []string, hierarchies []cgroup.Hierarchy) {
	made := map[string]bool{".": true}
	var mkdir func(dir string)
	mkdir = func(dir string) {
		if !made[dir] {
			mkdir(path.Dir(dir))
			made[dir] = true
			p.do("mkdir "+dir, unix.SYS_MKDIRAT, cwd, p.str(own, "/", dir), val(0o755))
		}
	}
	for _, name := range names {
		mkdir(path.Dir(name))
		p.do("mknod "+path.Base(name), unix.SYS_MKNODAT, cwd, p.str(own, "/", name), val(unix.S_IFREG|0o644), val(0))
	}
	for _, h := range hierarchies {
		mkdir(h.Dir)
		for _, name := range h.Controllers {
			if name != h.Name {
				p.do("symlink "+name, unix.SYS_SYMLINKAT, p.str(h.Name), cwd, p.str(own, "/", path.Dir(h.Dir), "/", name))
			}
		}
	}
}

// setUp has PID 1 execute a plan that makes the files, and writes their texts.
func (b *Init) setUp(ctx context.Context, p *plan) error {
	if err := b.execute(ctx, p, launch.ForInit, &b.visible.dir); err != nil {
		return err
	}
	files := b.visible.texts
	b.visible.texts = make(map[string]string, len(files))
	return b.visible.write(files)
}

// writeLimits writes the sandbox's limits to the files.
func (s *Sandbox) writeLimits() error {
	v := &s.visible
	if v.dir == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.begun = time.Now()
	return v.write(s.backend.lastVisible.filesFor(visibleLimits{s.limits.RAM, s.limits.CPU, s.tasks, s.cgroup != nil}, s.cgroup))
}

// refresh writes the sandbox's usage to its files if it has changed, at most ten times a second unless the
// difference is large. Each text is as long as the one before, so that a reader never sees the end of the old one.
func (s *Sandbox) refresh(saw reading) {
	v := &s.visible
	if v.dir == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	limit, used, cpu := s.ram.Load(), saw.ram, saw.cpu
	now := time.Now()
	if change := used - v.used; now.Sub(v.written) < 100*time.Millisecond && max(change, -change) < limit/64 {
		return
	}
	if s.cgroup != nil {
		cpu = s.cgroup.CPU()
	}
	if used == v.used && cpu == v.cpu { // like a session's waiting interpreter
		return
	}
	v.written, v.used, v.cpu = now, used, cpu
	n := backends.Cores(s.limits.CPU, runtime.NumCPU())
	v.writeNamed(map[string]string{
		"meminfo": backends.MemInfo(limit, used), "stat": backends.ProcStat(hostFiles()["stat"], n, cpu, now.Sub(v.begun)),
		"memory.current": numberText(used), "memory.usage_in_bytes": numberText(used),
		"cpu.stat": cpuStat(cpu), "cpuacct.usage": numberText(int64(cpu)),
	})
}

// writeRAM writes a new RAM limit.
func (s *Sandbox) writeRAM(limit int64) {
	v := &s.visible
	if v.dir == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	ram := limitText(limit)
	v.writeNamed(map[string]string{
		"meminfo":    backends.MemInfo(limit, v.used),
		"memory.max": ram, "memory.limit_in_bytes": ram, "memory.memsw.limit_in_bytes": ram, "memory.stat": "hierarchical_memory_limit " + ram,
	})
}

// writeNamed writes the texts for existing files, by the last element of their paths. After a failure the program
// sees the previous number.
func (v *visible) writeNamed(texts map[string]string) {
	for at := range v.texts {
		if text, changes := texts[path.Base(at)]; changes {
			_ = v.write(map[string]string{at: text})
		}
	}
}

// write overwrites files whose texts have changed.
func (v *visible) write(texts map[string]string) error {
	for name, text := range texts {
		before := v.texts[name]
		if text == before {
			continue
		}
		fd, err := unix.Openat(int(v.dir.Fd()), name, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		if err != nil {
			return fmt.Errorf("show limits in %s: %w", name, err)
		}
		_, err = unix.Pwrite(fd, []byte(text), 0)
		if err == nil && len(text) < len(before) {
			err = unix.Ftruncate(fd, int64(len(text)))
		}
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("show limits in %s: %w", name, err)
		}
		v.texts[name] = text
	}
	return nil
}
