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

// serverLeaf is for the server itself, where its own cgroup must hold no process.
const serverLeaf = "sandboxmcp-server"

// Unified says whether this machine has one tree of cgroups, version 2.
func Unified() bool { return cg.IsCgroup2UnifiedMode() }

// baseV2 tries our own cgroup and the one above it. A cgroup that holds processes can't hand
// controllers down (the "no internal processes" rule of cgroups(7)); where the only process in
// ours is us, we move into a leaf first, as a service with Delegate=yes is meant to.
func baseV2(name string) (map[string]string, error) {
	own, err := cg.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join("/sys/fs/cgroup", own[""])
	if filepath.Base(dir) == serverLeaf { // an earlier backend of this process, or a parent of it, moved us here
		dir = filepath.Dir(dir)
	}
	err = handDown(dir)
	full := errors.Is(err, unix.EBUSY)
	if full && delegated(dir) {
		err = gather(dir)
	}
	if err != nil {
		if above := filepath.Dir(dir); len(above) > len("/sys/fs/cgroup/") && handDown(above) == nil {
			dir, err = above, nil
		} else if full {
			err = gather(dir)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup v2 %s is not delegated to us: %w", dir, err)
	}
	return map[string]string{"": filepath.Join(dir, name)}, nil
}

// handDown makes dir give its children the controllers that we need.
func handDown(dir string) error {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return err
	}
	return cg.WriteFile(dir, "cgroup.subtree_control", "+memory +pids +cpu")
}

// delegated says whether systemd leaves what is below dir to us. Of a unit that it does not, it stops
// all processes when the kernel kills one for its memory (OOMPolicy=stop), and a sandbox is to die alone.
func delegated(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	// A user's systemd can't set the one and, up to version 252, does not set the other. The scopes
	// in which a user's only process is a server are those made for it.
	return !systemd.IsRunningSystemd() || os.Geteuid() != 0 && strings.HasSuffix(dir, ".scope")
}

// gather moves us and what we started out of dir into a leaf, so that dir can hand down
// controllers. Where processes of others are in dir, it is not ours to do so.
func gather(dir string) error {
	leaf := filepath.Join(dir, serverLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	err := error(unix.EBUSY)
	for range 10 { // what is forked meanwhile is in the next look
		pids, failed := cg.GetPids(dir)
		if failed != nil {
			return failed
		}
		for _, pid := range pids {
			if _, gone := os.Stat("/proc/" + strconv.Itoa(pid)); gone == nil && !family(pid) {
				os.Remove(leaf)
				return unix.EBUSY
			}
			if failed := cg.WriteFile(leaf, "cgroup.procs", strconv.Itoa(pid)); failed != nil && !errors.Is(failed, unix.ESRCH) {
				return failed
			}
		}
		if err = handDown(dir); !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}

// family says whether a process is this one, or descends from it.
func family(pid int) bool {
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

// makeV2 makes a v2 directory below the server's own. The library's Apply would do that, too, but it
// switches on every controller of the kernel in each directory from the host's root down, for good.
func makeV2(dir string) error {
	base := filepath.Dir(dir)
	if err := os.Mkdir(base, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	err := handDown(base)
	if errors.Is(err, unix.ENOENT) { // systemd took a controller back before anybody used it
		if err = handDown(filepath.Dir(base)); err == nil {
			err = handDown(base)
		}
	}
	if err != nil {
		return err
	}
	return os.Mkdir(dir, 0o755)
}

// delegate has the user's systemd put this process into a scope of its own that is delegated to
// us, as "systemd-run --user --scope -p Delegate=yes" would. An ordinary user's login session is
// not, and no process can move itself out of it.
//
// It costs more than 10 ms, so only who asked for a cgroup, or keeps one for long, gets one.
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
