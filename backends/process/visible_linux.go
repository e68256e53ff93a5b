package process

import (
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
)

// A hardened sandbox shows its limits where runtimes look for them. The files are on a tmpfs, which is mounted at a place
// of its own while it is filled, and bound, read-only, to where the program finds them. The server keeps a descriptor of
// that first mount, which no process of the sandbox can reach, and writes to it.
const (
	visibleAt     = "/mnt" // until it is filled
	visibleCgroup = "sys/fs/cgroup"
)

// visible is what the server knows of those files.
type visible struct {
	dir   *os.File // nil where nothing can be mounted
	begun time.Time

	mu      sync.Mutex // guards the rest
	written time.Time
	used    int64 // bytes of RAM, as written
}

// Files of the tmpfs that change.
const (
	visibleMemInfo = "proc/meminfo"
	visibleStat    = "proc/stat"
)

// hostFiles are files of the host's /proc from which a sandbox's are made. What is used of them does not change while the
// machine runs.
var hostFiles = sync.OnceValue(func() map[string]string {
	texts := map[string]string{}
	for _, name := range []string{"cpuinfo", "stat"} {
		text, _ := os.ReadFile("/proc/" + name)
		texts[name] = string(text)
	}
	return texts
})

// processors returns how many processors the sandbox shows.
func (s *sandbox) processors() int { return backends.Cores(s.limits.CPU, runtime.NumCPU()) }

// visibleFiles returns the content of the tmpfs, by path.
func (s *sandbox) visibleFiles(hierarchies []cgroup.Hierarchy) map[string]string {
	n := s.processors()
	host := hostFiles()
	files := map[string]string{
		visibleMemInfo: backends.MemInfo(s.limits.RAM, 0),
		visibleStat:    backends.ProcStat(host["stat"], n, 0, 0),
		"proc/cpuinfo": backends.CPUInfo(host["cpuinfo"], n),
	}
	for _, name := range []string{"online", "possible", "present"} {
		files["sys/devices/system/cpu/"+name] = online(n)
	}
	for _, h := range hierarchies {
		for name, text := range s.madeUp(h.Controllers) {
			if h.Shared || slices.Contains(h.Covers, name) {
				files[path.Join(visibleCgroup, h.Name, name)] = text
			}
		}
	}
	for name, text := range files {
		if text == "" {
			delete(files, name)
		}
	}
	return files
}

// online returns the list of n processors, by cpuset(7).
func online(n int) string {
	if n == 1 {
		return "0\n"
	}
	return "0-" + strconv.Itoa(n-1) + "\n"
}

// madeUp returns files of a cgroup with the sandbox's limits, by name: of these controllers of version 1, or of version 2
// if there are none.
func (s *sandbox) madeUp(controllers []string) map[string]string {
	ram, cpus := limitText(s.limits.RAM), online(s.processors())
	quota, tasks := strconv.Itoa(max(1000, int(s.limits.CPU*100_000))), strconv.FormatUint(s.tasks, 10)+"\n"
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

// limitText returns the text of a file with a limit in bytes.
func limitText(n int64) string { return strconv.FormatInt(n, 10) + "\n" }

// numberText returns the text of a file with a number that changes. All are equally long, see refresh.
func numberText(n int64) string { return fmt.Sprintf("%-20d\n", n) }

// cpuStat returns the text of a made-up cpu.stat.
func cpuStat(used time.Duration) string {
	us := used.Microseconds()
	return fmt.Sprintf("usage_usec %-20d\nuser_usec %-20d\nsystem_usec %-20d\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n", us, us, 0)
}

// showLimits makes the files below base, the root directory that is being set up, and returns the server's descriptor.
func showLimits(p *plan, s *sandbox, base string) arg {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const attrs = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	own := base + visibleAt
	p.tmpfs(own, "mode=755,size=1m,nr_inodes=256", flags)
	hierarchies := s.cgroup.Hierarchies()
	files := s.visibleFiles(hierarchies)
	fillVisible(p, own, files, hierarchies)
	fd := p.get("open the limits to be seen", unix.SYS_OPENAT, cwd, p.str(own), val(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC), val(0))
	bind := func(name string) {
		at := base + "/" + name
		p.do("show /"+name, unix.SYS_MOUNT, p.str(own+"/"+name), p.str(at), val(0), val(unix.MS_BIND), val(0))
		p.attr(at, 0, attrs)
	}
	bind("sys")
	for _, h := range hierarchies {
		dir := path.Join(visibleCgroup, h.Name)
		// Where the kernel forbids it, there are the files that would cover it. A JVM looks for what is mounted, and reads what
		// lies there: it finds the kernel's file system in the list, whatever covers it.
		p.try("mount /"+dir, unix.SYS_MOUNT, p.str(h.Type), p.str(base+"/"+dir), p.str(h.Type), val(unix.MS_RDONLY|flags), p.str(h.Name))
		if h.Shared {
			bind(dir)
		}
		for _, name := range h.Covers {
			bind(dir + "/" + name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, "proc/") {
			bind(name)
		}
	}
	p.do("umount "+visibleAt, unix.SYS_UMOUNT2, p.str(own), val(unix.MNT_DETACH))
	return fd
}

// fillVisible writes the files, and makes the directories of the hierarchies.
func fillVisible(p *plan, own string, files map[string]string, hierarchies []cgroup.Hierarchy) {
	made := map[string]bool{".": true}
	var mkdir func(dir string)
	mkdir = func(dir string) {
		if !made[dir] {
			mkdir(path.Dir(dir))
			made[dir] = true
			p.do("mkdir "+dir, unix.SYS_MKDIRAT, cwd, p.str(own+"/"+dir), val(0o755))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mkdir(path.Dir(name))
		p.write(own+"/"+name, files[name], unix.O_CREAT, 0o644)
	}
	for _, h := range hierarchies {
		mkdir(path.Join(visibleCgroup, h.Name))
		for _, name := range h.Controllers {
			if name != h.Name {
				p.do("symlink "+name, unix.SYS_SYMLINKAT, p.str(h.Name), cwd, p.str(path.Join(own, visibleCgroup, name)))
			}
		}
	}
}

// refresh writes what the sandbox uses to the files that tell it, at most ten times a second unless it is much more or
// less. Each text is as long as the one before, so that a reader never finds the end of that.
func (s *sandbox) refresh(saw reading) {
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
	v.written, v.used = now, used
	if s.cgroup != nil {
		cpu = s.cgroup.CPU()
	}
	s.writeVisible(visibleMemInfo, backends.MemInfo(limit, used))
	s.writeVisible(visibleStat, backends.ProcStat(hostFiles()["stat"], s.processors(), cpu, now.Sub(v.begun)))
	if s.cgroup == nil {
		s.writeMadeUp(map[string]string{
			"memory.current": numberText(used), "memory.usage_in_bytes": numberText(used),
			"cpu.stat": cpuStat(cpu), "cpuacct.usage": numberText(int64(cpu)),
		})
	}
}

// showRAM shows another limit of RAM.
func (s *sandbox) showRAM(limit int64) {
	if s.visible.dir == nil {
		return
	}
	s.visible.mu.Lock()
	defer s.visible.mu.Unlock()
	ram := limitText(limit)
	s.writeMadeUp(map[string]string{
		"memory.max": ram, "memory.limit_in_bytes": ram, "memory.memsw.limit_in_bytes": ram, "memory.stat": "hierarchical_memory_limit " + ram,
	})
	s.writeVisible(visibleMemInfo, backends.MemInfo(limit, s.visible.used))
}

// writeMadeUp writes those of the files that were made up for the sandbox's cgroup.
func (s *sandbox) writeMadeUp(files map[string]string) {
	for _, h := range s.cgroup.Hierarchies() {
		had := s.madeUp(h.Controllers)
		for name, text := range files {
			if had[name] != "" && (h.Shared || slices.Contains(h.Covers, name)) {
				s.writeVisible(path.Join(visibleCgroup, h.Name, name), text)
			}
		}
	}
}

// writeVisible writes over one of the files. What fails leaves the program with the number before.
func (s *sandbox) writeVisible(name, text string) {
	fd, err := unix.Openat(int(s.visible.dir.Fd()), name, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if _, err = unix.Pwrite(fd, []byte(text), 0); err == nil {
		_ = unix.Ftruncate(fd, int64(len(text))) // after a shorter limit
	}
}
