package process

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	cg "github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// controllers are those a sandbox needs. In v1 each is a tree of its own.
var controllers = []string{"memory", "pids", "cpu"}

// cgroups makes the cgroups of one server's sandboxes, all below one folder that carries the
// server's identity, so that the next server can tell what a killed one left behind.
type cgroups struct {
	once   sync.Once
	want   bool                    // enough to ask systemd for it
	inside bool                    // of a container, whose engine has made one
	viewed func() (*cgroup, error) // that one, found once
	folder string                  // what our folders are called
	base   map[string]string       // by controller; "" is v2's single tree
	why    string                  // why there are none

	locks []*os.File // of our folders, by which others see that we live

	spares   spares
	sweeping sync.WaitGroup // the removal of what killed servers left, which may take seconds
}

// setting keeps the library's managers from setting limits at the same time: those of cgroup v1
// share variables without a lock (BlkioGroup.detectWeightFilenames).
var setting sync.Mutex

// cgroup holds one sandbox. The methods of a nil cgroup do nothing: limits are kept otherwise then.
type cgroup struct {
	paths   map[string]string
	manager cg.Manager
	opened  []*os.File
	inForce bounds  // as limit has set them
	spares  *spares // where it goes afterwards
	mu      sync.Mutex
	kept    map[string]int // files of it that are open, by path
	seen    bool           // not ours: the container's, which is only looked at
	limits  []string       // of seen: the controllers that limit something
}

// find looks, once, for a place below our own cgroup where we may make others.
func (c *cgroups) find() {
	c.once.Do(func() {
		var err error
		if cg.IsCgroup2UnifiedMode() {
			c.base, err = baseV2(c.folder)
		} else {
			c.base, err = baseV1(c.folder)
		}
		if c.want && err != nil {
			if failed := c.delegate(); failed != nil {
				err = fmt.Errorf("%w; %w", err, failed)
			} else if c.base != nil {
				err = nil
			}
		}
		if err == nil {
			err = c.own()
		}
		if err != nil {
			c.base, c.why = nil, err.Error()
			return
		}
		for _, dir := range c.base {
			c.sweeping.Go(func() { removeDead(filepath.Dir(dir)) })
		}
	})
}

// identity begins the name of a server's folders: its pid, and when it started, for pids come again.
func identity(pid int) string {
	return fmt.Sprintf("%s%d.%s.", folderPrefix, pid, startTime(pid))
}

// newFolder names the folders of one backend of this process.
func newFolder() string { return identity(os.Getpid()) + rand.Text()[:8] }

const folderPrefix = "sandboxmcp."

// startTime is field 22 of /proc/pid/stat: proc_pid_stat(5). "" when there is no such process.
func startTime(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := bytes.Cut(b, []byte(") "))
	fields := strings.Fields(string(rest))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// removeDead removes the folders of servers that are no more. Nothing runs in them: a sandbox
// does not outlive its server.
func removeDead(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, folderPrefix+"*"))
	for _, name := range names {
		if dead(name) {
			cg.RemovePath(name)
		}
	}
}

// dead says whether the server that a folder belongs to is no more: no process of that number and
// age is to be seen, and nobody holds the folder's lock. The number alone would not do: a server in
// another PID namespace has it in that one only.
func dead(dir string) bool {
	pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), folderPrefix), ".")
	n, err := strconv.Atoi(pid)
	if err != nil || strings.HasPrefix(filepath.Base(dir), identity(n)) {
		return false
	}
	f, err := lock(dir)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// lock locks a folder for as long as the file is open.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// own makes this server's folders and locks them.
func (c *cgroups) own() error {
	for _, dir := range c.base {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		f, err := lock(dir)
		if err != nil {
			return err
		}
		c.locks = append(c.locks, f)
	}
	return nil
}

func baseV1(folder string) (map[string]string, error) {
	own, err := cg.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := cg.GetCgroupMounts(false)
	if err != nil {
		return nil, err
	}
	base := map[string]string{}
	for _, m := range mounts {
		for _, name := range m.Subsystems {
			rel, err := filepath.Rel(m.Root, own[name])
			if err != nil {
				continue
			}
			base[name] = filepath.Join(m.Mountpoint, rel, folder)
		}
	}
	for _, name := range controllers {
		if base[name] == "" {
			return nil, fmt.Errorf("the cgroup v1 controller %q is not mounted", name)
		}
		if err := unix.Access(filepath.Dir(base[name]), unix.W_OK); err != nil {
			return nil, fmt.Errorf("cgroup v1 %s: %w", filepath.Dir(base[name]), err)
		}
	}
	used := map[string]string{}
	for _, name := range append(slices.Clone(controllers), "cpuacct") {
		if base[name] != "" {
			used[name] = base[name]
		}
	}
	return used, nil
}

// make makes an empty cgroup, without limits yet, or returns nil where there can be none.
func (c *cgroups) make() (*cgroup, error) {
	if c.inside {
		g, err := c.viewed()
		if err != nil {
			c.why = err.Error()
			return nil, nil
		}
		return g, nil
	}
	c.find()
	if c.base == nil {
		return nil, nil
	}
	if g := c.spares.take(); g != nil {
		return g, nil
	}
	g := &cgroup{paths: map[string]string{}, spares: &c.spares}
	name := rand.Text()
	for controller, dir := range c.base {
		g.paths[controller] = filepath.Join(dir, name)
	}
	config := &cg.Cgroup{Resources: &cg.Resources{SkipDevices: true}}
	var err error
	if dir := g.paths[""]; dir != "" {
		if err = makeV2(dir); err == nil {
			g.manager, err = fs2.NewManager(config, dir)
		}
	} else if g.manager, err = fs.NewManager(config, g.paths); err == nil {
		err = g.manager.Apply(-1)
	}
	if err == nil {
		err = g.openDoors()
	}
	if err != nil {
		g.remove()
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	return g, nil
}

// limit sets the cgroup's limits.
func (g *cgroup) limit(limits backends.Limits, tasks int64) error {
	if g == nil || g.seen {
		return nil
	}
	// What the program's files take is charged to the cgroup, too. This bounds both together,
	// whatever happens; the watcher keeps RAM alone below its limit.
	bound := limits.RAM + limits.Disk
	want := bounds{bound, limits.RAM, limits.CPU, tasks}
	if g.inForce == want {
		return nil
	}
	g.inForce = bounds{}
	const period = 100_000 // microseconds
	r := &cg.Resources{
		Memory: bound, PidsLimit: &tasks, SkipDevices: true,
		CpuPeriod: period, CpuQuota: max(1000, int64(limits.CPU*period)),
	}
	if g.v2() || cg.PathExists(filepath.Join(g.paths["memory"], "memory.memsw.limit_in_bytes")) {
		r.MemorySwap = bound
	}
	setting.Lock()
	defer setting.Unlock()
	if err := g.manager.Set(r); err != nil {
		return fmt.Errorf("set limits of the cgroup: %w", err)
	}
	if !g.v2() { // which counts what sockets hold apart, and only once it has a limit
		err := g.write("memory", "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(limits.RAM, 10))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set the cgroup's limit of sockets: %w", err)
		}
	}
	g.inForce = want
	return nil
}

// openDoors opens what PID 1 joins the cgroup by.
func (g *cgroup) openDoors() error {
	for _, path := range g.paths {
		flags, name := os.O_WRONLY, filepath.Join(path, "tasks")
		if g.v2() {
			flags, name = unix.O_PATH|unix.O_DIRECTORY, path
			os.WriteFile(filepath.Join(path, "memory.oom.group"), []byte("1"), 0)
		}
		f, err := os.OpenFile(name, flags, 0)
		if err != nil {
			return err
		}
		g.opened = append(g.opened, f)
	}
	return nil
}

func (g *cgroup) v2() bool { return g.paths[""] != "" }

// folder is the v2 folder that PID 1 is to be born in, if any.
func (g *cgroup) folder() *os.File {
	if g == nil || g.seen || !g.v2() {
		return nil
	}
	return g.opened[0]
}

// join makes the process that follows p a member of v1 cgroups: it writes "0" to "tasks", which
// moves the calling thread without the grace period (10 ms) that the kernel waits for when another
// process, or a whole one, is moved (cgroup_procs_write_start).
func (g *cgroup) join(p *plan) {
	if g == nil || g.v2() {
		return
	}
	for _, f := range g.opened {
		p.want(1, "join cgroup", unix.SYS_WRITE, p.file(f), p.str("0"), val(1))
	}
}

// detail says what the layer is, for Containment.
func (g *cgroup) detail() string {
	limits := controllers
	if g.seen {
		limits = g.limits
	}
	if g.v2() {
		return "v2: " + strings.Join(limits, " ")
	}
	return "v1: " + strings.Join(limits, " ")
}

// keeps says whether a controller's limit is the cgroup's to keep.
func (g *cgroup) keeps(controller string) bool {
	return g != nil && (!g.seen || slices.Contains(g.limits, controller))
}

// check reads back from the kernel that process pid is in the cgroup.
func (g *cgroup) check(pid int) error {
	if g.seen {
		return nil // nothing in a container can be elsewhere
	}
	in, err := folders("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return fmt.Errorf("is PID 1 in its cgroup: %w", err)
	}
	for name, path := range g.paths {
		if in[name] == "" || !strings.HasSuffix(path, in[name]) || filepath.Base(in[name]) != filepath.Base(path) {
			return errors.New("PID 1 is not in its cgroup")
		}
	}
	return nil
}

// folders reads the lines "7:cpu,cpuacct:/folder" of a /proc/pid/cgroup; v2's controller is "". It
// is the library's ParseCgroupFile without the scanner, for each program's start waits for it.
func folders(file string) (map[string]string, error) {
	text, err := readOnce(file)
	if err != nil {
		return nil, err
	}
	in := map[string]string{}
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, folder, _ := strings.Cut(rest, ":")
		for name := range strings.SplitSeq(controllers, ",") {
			in[name] = folder
		}
	}
	return in, nil
}

// remove deletes the cgroup, which holds no process any more.
func (g *cgroup) remove() {
	if g == nil || g.seen {
		return
	}
	for _, f := range g.opened {
		f.Close()
	}
	g.opened = nil
	g.mu.Lock()
	for _, fd := range g.kept {
		unix.Close(fd)
	}
	g.kept = nil
	g.mu.Unlock()
	for _, path := range g.paths {
		cg.RemovePath(path)
	}
}

// giveBack keeps the cgroup for another sandbox, or removes it. It holds no process any more.
func (g *cgroup) giveBack() {
	if g == nil || g.seen || g.spares.keep(g) {
		return
	}
	g.remove()
}

// close removes the server's own folder.
func (c *cgroups) close() {
	c.spares.close()
	c.sweeping.Wait()
	for _, f := range c.locks {
		f.Close()
	}
	for _, dir := range c.base {
		os.Remove(dir)
	}
}
