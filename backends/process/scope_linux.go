package process

import (
	"fmt"
	"os"

	cg "github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/systemd"
)

// delegate has the user's systemd put this process into a scope of its own that is delegated to
// us, as "systemd-run --user --scope -p Delegate=yes" would. An ordinary user's login session is
// not, and no process can move itself out of it.
//
// It costs more than 10 ms, so only who asked for a cgroup, or keeps one for long, gets one.
func (c *cgroups) delegate() error {
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
	c.base, err = baseV2()
	return err
}
