package cgroup

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	cg "github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// Groups makes the cgroups of one owner in a server, all below one directory whose name identifies the server, so
// that a later server recognises those of a killed one.
type Groups struct {
	Delegate bool   // ask the user's systemd for a scope if nothing else is writable
	Inside   bool   // use the cgroup of this process's container
	Name     string // of the directories; see NewName
	Why      string // reason why there are no cgroups

	once sync.Once
	base map[string]string // directories by controller; "" is v2's single tree

	locks []*os.File // locks of the directories, which prove that this server lives

	spares   spares
	sweeping sync.WaitGroup // removal of dead servers' directories, which may take seconds
}

// FindBase searches once for a writable parent of cgroups, and removes the cgroups of dead servers.
func (c *Groups) FindBase() {
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
			err = c.makeServerDirs()
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

// HasBase reports whether cgroups can be made, after FindBase.
func (c *Groups) HasBase() bool { return c.base != nil }

// baseV1 returns directories below this process's own cgroups, which must be writable.
func baseV1(dirName string) (map[string]string, error) {
	base, err := ownV1()
	if err != nil {
		return nil, err
	}
	for _, name := range controllers {
		if err := unix.Access(base[name], unix.W_OK); err != nil {
			return nil, fmt.Errorf("cgroup v1 %s: %w", base[name], err)
		}
	}
	maps.DeleteFunc(base, func(name, _ string) bool { return name != "cpuacct" && !slices.Contains(controllers, name) })
	for name, dir := range base {
		base[name] = filepath.Join(dir, dirName)
	}
	return base, nil
}

// ownV1 returns the directories of this process's own cgroups by controller, with all required ones.
func ownV1() (map[string]string, error) {
	own, err := cg.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := cg.GetCgroupMounts(false)
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for _, m := range mounts {
		for _, name := range m.Subsystems {
			// Inside a container without a cgroup namespace, the container's directory is the mount's root, and has
			// our path.
			if paths.Within(own[name], m.Root) {
				rel, _ := filepath.Rel(m.Root, own[name])
				dirs[name] = filepath.Join(m.Mountpoint, rel)
			}
		}
	}
	for _, name := range controllers {
		if dirs[name] == "" {
			return nil, fmt.Errorf("the cgroup v1 controller %q is not mounted", name)
		}
	}
	return dirs, nil
}

// makeServerDirs makes this server's directories and locks them.
func (c *Groups) makeServerDirs() error {
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

// removeDead removes the directories of dead servers, and kills the processes in them.
func removeDead(dir string) {
	names, _ := filepath.Glob(filepath.Join(dir, Prefix+"*"))
	for _, name := range names {
		if IsDead(name) {
			_, _ = killAll(name) // processes of a host command that killed its watcher
			cg.RemovePath(name)
		}
	}
}

// IsDead reports whether the server of a directory is dead: no visible process has its PID and start time, and the
// directory's lock is free. The PID alone is not enough: it is valid only in the server's PID namespace.
func IsDead(dir string) bool {
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

// Prefix begins the names of all servers' directories.
const Prefix = "sandboxmcp."

// Identity begins the name of a server's directories: its pid, and its start time, since pids are reused.
func Identity(pid int) string {
	return fmt.Sprintf("%s%d.%s.", Prefix, pid, StartTime(pid))
}

// NewName returns a name for the directories of one owner in this process.
func NewName() string { return Identity(os.Getpid()) + rand.Text()[:8] }

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

// ParentDirs returns the v1 directories to which a thread returns after a moment in the cgroup.
func (c *Groups) ParentDirs() (dirs []string) {
	for _, base := range c.base {
		dirs = append(dirs, filepath.Dir(base))
	}
	return dirs
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
