package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	cg "github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/systemd"
	"golang.org/x/sys/unix"
)

// serverLeaf is the server's leaf cgroup, where its own cgroup must hold no process.
const serverLeaf = "sandboxmcp-server"

// IsUnified reports whether this machine has one tree of cgroups, version 2.
func IsUnified() bool { return cg.IsCgroup2UnifiedMode() }

// baseV2 tries this process's own cgroup and its parent. A cgroup that holds processes can't delegate controllers (the
// "no internal processes" rule of cgroups(7)); if this process is the only one in it, it moves into a leaf first, as a
// service with Delegate=yes is meant to.
func baseV2(name string) (map[string]string, error) {
	own, err := cg.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join("/sys/fs/cgroup", own[""])
	if filepath.Base(dir) == serverLeaf { // this process or its parent has moved us here before
		dir = filepath.Dir(dir)
	}
	err = delegateControllers(dir)
	full := errors.Is(err, unix.EBUSY)
	if full && isDelegated(dir) {
		err = moveToLeaf(dir)
	}
	if err != nil {
		if above := filepath.Dir(dir); len(above) > len("/sys/fs/cgroup/") && delegateControllers(above) == nil {
			dir, err = above, nil
		} else if full {
			err = moveToLeaf(dir)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup v2 %s is not delegated to us: %w", dir, err)
	}
	return map[string]string{"": filepath.Join(dir, name)}, nil
}

// delegateControllers delegates the required controllers to the children of dir.
func delegateControllers(dir string) error {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return err
	}
	return cg.WriteFile(dir, "cgroup.subtree_control", "+memory +pids +cpu")
}

// isDelegated reports whether systemd leaves the cgroups below dir to this process. Of a unit without delegation, systemd
// stops all processes when the kernel kills one for its memory (OOMPolicy=stop), and a sandbox is to die alone.
func isDelegated(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	// A user's systemd can't set the first property and, up to version 252, does not set the second. A scope whose
	// only process is a server was made for that server.
	return !systemd.IsRunningSystemd() || os.Geteuid() != 0 && strings.HasSuffix(dir, ".scope")
}

// moveToLeaf moves this process and its children out of dir into a leaf, so that dir can delegate controllers. It fails if
// dir holds processes of others.
func moveToLeaf(dir string) error {
	leaf := filepath.Join(dir, serverLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	err := error(unix.EBUSY)
	for range 10 { // processes that are forked meanwhile are in the next list
		pids, failed := cg.GetPids(dir)
		if failed != nil {
			return failed
		}
		for _, pid := range pids {
			if _, gone := os.Stat("/proc/" + strconv.Itoa(pid)); gone == nil && !isDescendant(pid) {
				os.Remove(leaf)
				return unix.EBUSY
			}
			if failed := cg.WriteFile(leaf, "cgroup.procs", strconv.Itoa(pid)); failed != nil && !errors.Is(failed, unix.ESRCH) {
				return failed
			}
		}
		if err = delegateControllers(dir); !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}

// isDescendant reports whether a process is this one, or a descendant of it.
func isDescendant(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if err != nil || len(fields) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	return pid == os.Getpid()
}

// makeV2 makes a v2 directory below the server's own. The library's Apply would do that, too, but it switches on every
// controller of the kernel in each directory from the host's root down, for good.
func makeV2(dir string) error {
	base := filepath.Dir(dir)
	if err := os.Mkdir(base, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	err := delegateControllers(base)
	if errors.Is(err, unix.ENOENT) { // systemd took a controller back before anybody used it
		if err = delegateControllers(filepath.Dir(base)); err == nil {
			err = delegateControllers(base)
		}
	}
	if err != nil {
		return err
	}
	return os.Mkdir(dir, 0o755)
}

// delegate has the user's systemd put this process into a scope of its own with delegation, as "systemd-run --user
// --scope -p Delegate=yes" would. An ordinary user's login session has none, and no process can move itself out of it.
//
// It costs more than 10 ms, so it is done only for --require cgroup or a long-running server.
func (c *Groups) delegate() error {
	if c.base != nil || !cg.IsCgroup2UnifiedMode() || os.Geteuid() == 0 || !systemd.IsRunningSystemd() {
		return nil
	}
	config := &cg.Cgroup{
		Systemd: true, Rootless: true, ScopePrefix: "sandboxmcp", Name: fmt.Sprint(os.Getpid()), Parent: "app.slice",
		Resources: &cg.Resources{SkipDevices: true},
	}
	manager, err := systemd.NewUnifiedManager(config, "")
	if err == nil {
		err = manager.Apply(os.Getpid())
	}
	if err != nil {
		return fmt.Errorf("ask systemd for a scope: %w", err)
	}
	c.base, err = baseV2(c.Name)
	return err
}
