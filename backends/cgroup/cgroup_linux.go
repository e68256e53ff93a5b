package cgroup

import (
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
)

// controllers are the required ones. In v1 each has a tree of its own.
var controllers = []string{"memory", "pids", "cpu"}

// setting serialises the library's managers: those of cgroup v1 share variables without a lock
// (BlkioGroup.detectWeightFilenames).
var setting sync.Mutex

// Group is the cgroup of one sandbox, or one command. The methods of a nil Group do nothing: other means enforce the
// limits then.
type Group struct {
	paths     map[string]string
	manager   cg.Manager
	joinFiles []*os.File
	inForce   Bounds  // set by Limit
	spares    *spares // receives the empty group at the end
	mu        sync.Mutex
	openFDs   map[string]int // cached open files, by name
	readOnly  bool           // a container's cgroup, which is never changed
	limits    []string       // of readOnly: the controllers with a limit
}

// Create makes an empty cgroup without limits. It returns nil if cgroups are not available.
func (c *Groups) Create() (*Group, error) {
	if c.Inside {
		g, err := ContainerGroup()
		if err != nil {
			c.Why = err.Error()
			return nil, nil
		}
		return g, nil
	}
	c.FindBase()
	if c.base == nil {
		return nil, nil
	}
	if g := c.spares.reuseGroup(); g != nil {
		return g, nil
	}
	g := &Group{paths: map[string]string{}, openFDs: map[string]int{}, spares: &c.spares}
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
	if !g.V2() { // v1 counts socket memory separately, and only once it has a limit
		err := g.write("memory", "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(want.Sockets, 10))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set the cgroup's limit of sockets: %w", err)
		}
	}
	g.inForce = want
	return nil
}

// JoinFiles returns the open files by which a process joins the cgroup: the directory of v2, for clone3; the tasks
// file of each v1 directory, to which the process writes "0". That moves the calling thread without the grace
// period (10 ms) that the kernel waits for when it moves another process, or all threads of one
// (cgroup_procs_write_start).
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

// V2 reports whether the cgroup is of version 2.
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

// CheckMember reads back from the kernel that process pid is in the cgroup.
func (g *Group) CheckMember(pid int) error {
	if g.readOnly {
		return nil // a container's processes can't leave its cgroup
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

// pathsOf reads the lines "7:cpu,cpuacct:/path" of a /proc/pid/cgroup; v2's controller is "". It replaces the
// library's slower ParseCgroupFile, since each program's start waits for it.
func pathsOf(file string) (map[string]string, error) {
	text, err := readOnce(file)
	if err != nil {
		return nil, err
	}
	in := make(map[string]string, 16)
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		for name := range strings.SplitSeq(controllers, ",") {
			in[name] = path
		}
	}
	return in, nil
}

// Kill kills all processes in the cgroup, also those forked meanwhile: further forks are denied. It returns an
// error if processes remain after timeout; a process that the kernel blocks can't be killed.
func (g *Group) Kill(timeout time.Duration) error {
	if g == nil || g.readOnly {
		return nil
	}
	g.mu.Lock()
	g.inForce = Bounds{} // Limit must set them again
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
	if g == nil || g.readOnly || g.spares.addGroup(g) {
		return
	}
	g.Remove()
}
