package docker

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

func (e *docker) Info(ctx context.Context) (container.Info, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return container.Info{}, err
	}
	f := l.info
	i := container.Info{
		Version:  f.ServerVersion,
		Address:  l.endpoint.Host,
		Rootless: l.hasSecurityOption("rootless"),
		UserNS:   l.hasSecurityOption("rootless") || l.hasSecurityOption("userns"),
		SELinux:  l.hasSecurityOption("selinux"),
		CgroupV2: f.CgroupVersion == "2",
		Limits:   len(l.missingLimits()) == 0,
		Runtime:  f.DefaultRuntime,
		Arch:     goarch(f.Architecture),
	}
	if !i.Limits {
		i.Hint = "Docker can't limit " + strings.Join(l.missingLimits(), ", ") + " here"
	} else if !f.SwapLimit {
		i.Hint = "Docker can't limit swap here: boot with swapaccount=1"
	}
	i.Local, err = l.isLocal(ctx, e.config.Dir)
	return i, l.explain("check whether Docker sees our files", err)
}

// hasSecurityOption reports whether the engine lists a security option.
func (l *link) hasSecurityOption(name string) bool {
	return slices.ContainsFunc(l.info.SecurityOptions, func(option string) bool {
		return option == name || option == "name="+name || strings.HasPrefix(option, "name="+name+",")
	})
}

// missingLimits lists the resources that the engine can't limit.
func (l *link) missingLimits() []string {
	f := l.info
	// A rootless engine without systemd's delegation has no cgroups at all, whatever the kernel supports.
	none := f.CgroupDriver == "none"
	var missing []string
	for _, r := range []struct {
		name string
		has  bool
	}{{"memory", f.MemoryLimit}, {"processes", f.PidsLimit}, {"CPU", f.CPUCfsQuota && f.CPUCfsPeriod}} {
		if none || !r.has {
			missing = append(missing, r.name)
		}
	}
	return missing
}

// goarch returns Go's name for a machine name of uname.
func goarch(machine string) string {
	names := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386", "armv6l": "arm", "armv7l": "arm"}
	return cmp.Or(names[machine], machine)
}
