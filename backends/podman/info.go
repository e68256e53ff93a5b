package podman

import (
	"context"
	"net/http"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// hostInfo is the part of GET /libpod/info that we use.
type hostInfo struct {
	Host struct {
		Arch              string
		Hostname          string
		Kernel            string
		MemTotal          int64
		Uptime            string
		CgroupManager     string
		CgroupVersion     string
		CgroupControllers []string
		OCIRuntime        struct{ Name string }
		IDMappings        struct {
			UIDMap []struct{ Size int } `json:"uidmap"`
		}
		Security struct {
			Rootless       bool
			SELinuxEnabled bool
		}
	}
	Store   struct{ GraphRoot string }
	Version struct{ Version string }
}

// facts describe a service since the connection was made.
type facts struct {
	container.Info
	controllers []string // of cgroups, in which containers can be limited
	runtime     string   // to name for each container, "" is the service's own choice
}

// Info implements [container.Engine].
func (e *Engine) Info(ctx context.Context) (container.Info, error) {
	if err := e.call(ctx, request{method: http.MethodGet, path: "/_ping", again: true}, nil); err != nil {
		return container.Info{}, err
	}
	l, err := e.connect(ctx)
	if err != nil {
		return container.Info{}, err
	}
	return l.facts.Info, nil
}

// queryInfo asks a service for its description, unless a saved one still holds.
func (e *Engine) queryInfo(ctx context.Context, l *connection) (facts, error) {
	mark := e.infoKey(l.endpoint)
	h, here := e.loadInfo(mark)
	if !here {
		res, err := l.send(ctx, request{method: http.MethodGet, path: "/info"})
		if err != nil {
			return facts{}, err
		}
		if err := decode(res, &h); err != nil {
			return facts{}, err
		}
		if here = l.endpoint.path() != "" && h.isLocal(); here {
			e.saveInfo(mark, h)
		}
	}
	f := facts{Info: container.Info{
		Version:  h.Version.Version,
		Address:  l.endpoint.redacted(),
		Rootless: h.Host.Security.Rootless,
		UserNS:   h.Host.Security.Rootless,
		Local:    here,
		SELinux:  h.Host.Security.SELinuxEnabled,
		CgroupV2: h.Host.CgroupVersion == "v2",
		Runtime:  h.Host.OCIRuntime.Name,
		Arch:     h.Host.Arch,
	}}
	for _, m := range h.Host.IDMappings.UIDMap {
		f.Users += m.Size
	}
	if l.endpoint.source == ownService {
		f.Address = "a service of our own"
	}
	f.controllers = h.limits()
	f.Limits = len(f.controllers) == len(limitControllers)
	f.chooseRuntime(e.env)
	return f, nil
}

// limitControllers are the controllers that a container's limits need.
var limitControllers = []string{"memory", "pids", "cpu"}

// limits lists the controllers that are there. An ordinary user has none on cgroup v1, and on v2 those that systemd
// delegates, which are often all but cpu.
func (h hostInfo) limits() []string {
	if h.Host.Security.Rootless && (h.Host.CgroupVersion != "v2" || h.Host.CgroupManager != "systemd") {
		return nil
	}
	var there []string
	for _, c := range limitControllers {
		if slices.Contains(h.Host.CgroupControllers, c) {
			there = append(there, c)
		}
	}
	return there
}

// chooseRuntime names runc where crun, which Podman prefers, can't make containers.
func (f *facts) chooseRuntime(env environ) {
	if !f.Local || !hybridCgroups() {
		return
	}
	_, err := engine.Program(env["PATH"], "crun")
	crun := err == nil
	_, err = engine.Program(env["PATH"], "runc")
	runc := err == nil
	switch {
	case f.Runtime != "crun" && crun:
		f.Hint = "cgroup v1 and v2 are mixed here, which crun refuses: " + f.Runtime + " is used"
	case f.Runtime == "crun" && runc:
		f.runtime, f.Runtime = "runc", "runc"
		f.Hint = "cgroup v1 and v2 are mixed here, which crun refuses: runc is used"
	case f.Runtime == "crun":
		f.Hint = "cgroup v1 and v2 are mixed here, which crun refuses: install runc"
	}
}
