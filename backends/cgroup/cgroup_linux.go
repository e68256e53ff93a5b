package cgroup

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
	"time"

	cg "github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// controllers are the required ones. In v1 each has a tree of its own.
var controllers = []string{"memory", "pids", "cpu"}

// Groups makes the cgroups of one owner in a server, all below one directory that carries the server's identity, so that
// the next server can recognise those of a killed one.
type Groups struct {
	Delegate bool   // ask the user's systemd for a scope if nothing else is writable
	Inside   bool   // use the cgroup of this process's container
	Name     string // of the directories; see NewName
	Why      string // why there are no cgroups

	once    sync.Once
	viewing sync.Once
	viewed  *Group            // the container's
	blind   error             // why it can't be used
	base    map[string]string // directories by controller; "" is v2's single tree

	locks []*os.File // on the directories, which mark this server as alive

	spares   spares
	sweeping sync.WaitGroup // the removal of dead servers' directories, which may take seconds
}

// setting serialises the library's managers: those of cgroup v1 share variables without a lock
// (BlkioGroup.detectWeightFilenames).
var setting sync.Mutex

// Group is the cgroup of one sandbox, or one command. The methods of a nil Group do nothing: other means enforce the limits
// then.
type Group struct {
	paths     map[string]string
	manager   cg.Manager
	joinFiles []*os.File
	inForce   Bounds  // as set by Limit
	spares    *spares // receives it at the end
	mu        sync.Mutex
	openFDs   map[string]int // open files of it, by path
	readOnly  bool           // the container's, which is never changed
	limits    []string       // of readOnly: the controllers with a limit
}

// Find searches, once, for a writable place for cgroups, and sweeps it.
func (c *Groups) Find() {
	c.once.Do(func() {
		var err error
		if cg.IsCgroup2UnifiedMode() {
			c.base, err = baseV2(c.Name)
		} else {
			c.base, err = baseV1(c.Name)
		}
		if c.Delegate && err != nil {
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
			c.base, c.Why = nil, err.Error()
			return
		}
		for _, dir := range c.base {
			c.sweeping.Go(func() { removeDead(filepath.Dir(dir)) })
		}
	})
}

// Identity begins the name of a server's directories: its pid, and its start time, since pids are reused.
func Identity(pid int) string {
	return fmt.Sprintf("%s%d.%s.", Prefix, pid, StartTime(pid))
}

// NewName returns a name for the directories of one owner in this process.
func NewName() string { return Identity(os.Getpid()) + rand.Text()[:8] }

// Prefix begins the names of all servers' directories.
const Prefix = "sandboxmcp."

// StartTime returns field 22 of /proc/pid/stat: proc_pid_stat(5). It is "" for a process that does not exist.
func StartTime(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := bytes.Cut(b, []byte(") "))
	fields := strings.Fields(string(rest))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// Found reports whether cgroups can be made, after Find.
func (c *Groups) Found() bool { return c.base != nil }

// removeDead removes the directories of dead servers, and kills processes that are left in them.
func removeDead(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, Prefix+"*"))
	for _, name := range names {
		if Dead(name) {
			_, _ = killAll(name) // a command on the host that has killed its watcher
			cg.RemovePath(name)
		}
	}
}

// Dead reports whether the server of a directory is dead: no visible process has its number and start time, and the
// directory's lock is free. The number alone would not do: a server in another PID namespace has it in that one only.
func Dead(dir string) bool {
	pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), Prefix), ".")
	n, err := strconv.Atoi(pid)
	if err != nil || strings.HasPrefix(filepath.Base(dir), Identity(n)) {
		return false
	}
	f, err := Lock(dir)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// Lock locks a directory for as long as the file is open.
func Lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := statefile.TryLock(f, false); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// own makes this server's directories and locks them.
func (c *Groups) own() error {
	for _, dir := range c.base {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		f, err := Lock(dir)
		if err != nil {
			return err
		}
		c.locks = append(c.locks, f)
	}
	return nil
}

func baseV1(dirName string) (map[string]string, error) {
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
			base[name] = filepath.Join(m.Mountpoint, rel, dirName)
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

// Make makes an empty cgroup, without limits yet, or returns nil where there can be none.
func (c *Groups) Make() (*Group, error) {
	if c.Inside {
		g, err := c.View()
		if err != nil {
			c.Why = err.Error()
			return nil, nil
		}
		return g, nil
	}
	c.Find()
	if c.base == nil {
		return nil, nil
	}
	if g := c.spares.take(); g != nil {
		return g, nil
	}
	g := &Group{paths: map[string]string{}, spares: &c.spares}
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
		err = g.openJoinFiles()
	}
	if err != nil {
		g.Remove()
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	return g, nil
}

// Limit sets the cgroup's limits.
func (g *Group) Limit(want Bounds) error {
	if g == nil || g.readOnly || g.inForce == want {
		return nil
	}
	g.inForce = Bounds{}
	const period = 100_000 // microseconds
	r := &cg.Resources{
		Memory: want.Memory, PidsLimit: &want.Tasks, SkipDevices: true,
		CpuPeriod: period, CpuQuota: max(1000, int64(want.CPU*period)),
	}
	if g.V2() || cg.PathExists(filepath.Join(g.paths["memory"], "memory.memsw.limit_in_bytes")) {
		r.MemorySwap = want.Memory
	}
	setting.Lock()
	defer setting.Unlock()
	if err := g.manager.Set(r); err != nil {
		return fmt.Errorf("set limits of the cgroup: %w", err)
	}
	if !g.V2() { // which counts what sockets hold apart, and only once it has a limit
		err := g.write("memory", "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(want.Sockets, 10))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set the cgroup's limit of sockets: %w", err)
		}
	}
	g.inForce = want
	return nil
}

// JoinFiles returns the open files by which a process joins the cgroup: of v2 its directory, for clone3; of v1 each
// directory's tasks, to which the process writes "0". That moves the calling thread without the grace period (10 ms) that
// the kernel waits for when another process, or a whole one, is moved (cgroup_procs_write_start).
func (g *Group) JoinFiles() []*os.File {
	if g == nil || g.readOnly {
		return nil
	}
	return g.joinFiles
}

// openJoinFiles opens the files of JoinFiles.
func (g *Group) openJoinFiles() error {
	for _, path := range g.paths {
		flags, name := os.O_WRONLY, filepath.Join(path, "tasks")
		if g.V2() {
			flags, name = unix.O_PATH|unix.O_DIRECTORY, path
			os.WriteFile(filepath.Join(path, "memory.oom.group"), []byte("1"), 0)
		}
		f, err := os.OpenFile(name, flags, 0)
		if err != nil {
			return err
		}
		g.joinFiles = append(g.joinFiles, f)
	}
	return nil
}

// V2 reports whether it is a cgroup of version 2.
func (g *Group) V2() bool { return g != nil && g.paths[""] != "" }

// Dir returns the v2 directory for clone3 with CLONE_INTO_CGROUP, if any.
func (g *Group) Dir() *os.File {
	if g == nil || g.readOnly || !g.V2() {
		return nil
	}
	return g.joinFiles[0]
}

// Detail describes the layer, for Containment.
func (g *Group) Detail() string {
	limits := controllers
	if g.readOnly {
		limits = g.limits
	}
	if g.V2() {
		return "v2: " + strings.Join(limits, " ")
	}
	return "v1: " + strings.Join(limits, " ")
}

// Enforces reports whether the cgroup enforces a controller's limit.
func (g *Group) Enforces(controller string) bool {
	return g != nil && (!g.readOnly || slices.Contains(g.limits, controller))
}

// Check reads back from the kernel that process pid is in the cgroup.
func (g *Group) Check(pid int) error {
	if g.readOnly {
		return nil // nothing in a container can be elsewhere
	}
	in, err := pathsOf("/proc/" + strconv.Itoa(pid) + "/cgroup")
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

// pathsOf reads the lines "7:cpu,cpuacct:/path" of a /proc/pid/cgroup; v2's controller is "". It is the library's
// ParseCgroupFile without the scanner, for each program's start waits for it.
func pathsOf(file string) (map[string]string, error) {
	text, err := readOnce(file)
	if err != nil {
		return nil, err
	}
	in := map[string]string{}
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		for name := range strings.SplitSeq(controllers, ",") {
			in[name] = path
		}
	}
	return in, nil
}

// Kill kills all processes in the cgroup, also those that are forked meanwhile: further forks are denied. It returns an
// error if some are left after timeout; a process that the kernel blocks can't be killed.
func (g *Group) Kill(timeout time.Duration) error {
	if g == nil || g.readOnly {
		return nil
	}
	g.mu.Lock()
	g.inForce = Bounds{} // Limit has to set them anew
	g.mu.Unlock()
	pids := g.paths["pids"]
	if g.V2() {
		pids = g.paths[""]
	}
	_ = cg.WriteFile(pids, "pids.max", "0")
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		left, err := killAll(pids)
		if err != nil || left == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d processes in the cgroup %s can't be killed", left, pids)
		}
	}
}

// killAll kills all processes below dir, and returns how many there were.
func killAll(dir string) (int, error) {
	all, err := cg.GetAllPids(dir)
	for _, pid := range all {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil
	}
	return len(all), err
}

// ParentDirs returns the v1 directories to which a thread returns after a moment in the cgroup.
func (c *Groups) ParentDirs() (dirs []string) {
	for _, base := range c.base {
		dirs = append(dirs, filepath.Dir(base))
	}
	return dirs
}

// Remove deletes the cgroup, which must be empty.
func (g *Group) Remove() {
	if g == nil || g.readOnly {
		return
	}
	for _, f := range g.joinFiles {
		f.Close()
	}
	g.joinFiles = nil
	g.mu.Lock()
	for _, fd := range g.openFDs {
		unix.Close(fd)
	}
	g.openFDs = nil
	g.mu.Unlock()
	for _, path := range g.paths {
		cg.RemovePath(path)
	}
}

// Release keeps the empty cgroup for another sandbox, or removes it.
func (g *Group) Release() {
	if g == nil || g.readOnly || g.spares.put(g) {
		return
	}
	g.Remove()
}

// Close removes the server's own directories.
func (c *Groups) Close() {
	c.spares.close()
	c.sweeping.Wait()
	for _, f := range c.locks {
		f.Close()
	}
	for _, dir := range c.base {
		os.Remove(dir)
	}
}
