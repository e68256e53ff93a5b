package podman

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
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

// facts describe a service as of the connection.
type facts struct {
	container.Info
	controllers []string // cgroup controllers that can limit containers
	runtime     string   // passed for each container; "" is the service's default
}

// Info implements [container.Engine].
func (e *Engine) Info(ctx context.Context) (container.Info, error) {
	if err := e.Retry(ctx, func(l client.Link) error {
		_, err := l.Ping(ctx, moby.PingOptions{})
		return err
	}); err != nil {
		return container.Info{}, e.explain("connect with podman", err)
	}
	l, err := e.connect(ctx)
	if err != nil {
		return container.Info{}, err
	}
	return l.facts.Info, nil
}

// queryInfo asks a service for its description, unless a saved one is still valid.
func (e *Engine) queryInfo(ctx context.Context, l *connection) (facts, error) {
	mark := e.infoKey(l.endpoint)
	h, here := e.loadInfo(mark)
	if !here {
		info := request{method: http.MethodGet, path: "/info"}
		if err := info.send(ctx, l.Link, func(answer io.Reader) error { return json.NewDecoder(answer).Decode(&h) }); err != nil {
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

// limitControllers are the controllers for a container's limits.
var limitControllers = []string{"memory", "pids", "cpu"}

// limits lists the available controllers. An ordinary user has none on cgroup v1, and on v2 those that systemd
// delegates, which often lack cpu.
func (h hostInfo) limits() []string {
	if h.Host.Security.Rootless && (h.Host.CgroupVersion != "v2" || h.Host.CgroupManager != "systemd") {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(limitControllers), func(c string) bool { return !slices.Contains(h.Host.CgroupControllers, c) })
}

// chooseRuntime selects runc where crun, which Podman prefers, can't create containers.
func (f *facts) chooseRuntime(env environ) {
	if !f.Local || !hybridCgroups() {
		return
	}
	_, err := engine.FindProgram(env["PATH"], "crun")
	crun := err == nil
	_, err = engine.FindProgram(env["PATH"], "runc")
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

// savedInfo is the last description of a service on this machine, saved for the next process: to answer, Podman
// asks the package manager about its parts, which takes longer than running a container. No active layer depends on
// it: layers are checked in the container.
type savedInfo struct {
	Mark string
	At   time.Time
	Info hostInfo
}

const savedInfoName = "podman-info.json"

// savedInfoLifetime bounds the use of a saved description. Changes that its key does not cover are rare.
const savedInfoLifetime = 24 * time.Hour

// infoKey identifies the sources of a service's description: the service, the machine's boot, and the programs,
// environment and configuration that Podman uses. "" means that the description is not saved.
func (e *Engine) infoKey(p endpoint) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || p.path() == "" || e.config.Dir == "" {
		return ""
	}
	hash := sha256.New()
	fmt.Fprintln(hash, string(boot), os.Geteuid(), p.source, p.command)
	files := e.env.configFiles()
	if p.source != ownService { // the socket of our own service is always new
		fmt.Fprintln(hash, p.url)
		files = append(files, p.path())
	}
	for _, name := range []string{"podman", "crun", "runc"} {
		program, _ := engine.FindProgram(e.env["PATH"], name)
		files = append(files, program)
	}
	for _, name := range files {
		if f, err := os.Stat(name); err == nil {
			fmt.Fprintln(hash, name, f.Size(), f.ModTime().UnixNano())
		}
	}
	var settings []string
	for name, value := range e.env {
		if slices.Contains([]string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}, name) ||
			strings.HasPrefix(name, "CONTAINER") || strings.HasPrefix(name, "STORAGE_") {
			settings = append(settings, name+"="+value)
		}
	}
	slices.Sort(settings)
	fmt.Fprintf(hash, "%q", settings)
	// The controllers that systemd delegates to an ordinary user.
	controllers, _ := os.ReadFile(fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@%[1]d.service/cgroup.controllers", os.Geteuid()))
	fmt.Fprintf(hash, "%s", controllers)
	return hex.EncodeToString(hash.Sum(nil))
}

// configFiles lists the configuration files that Podman reads.
func (env environ) configFiles() []string {
	files := []string{"/etc/subuid", "/etc/subgid", env["CONTAINERS_CONF"], env["CONTAINERS_CONF_OVERRIDE"], env["CONTAINERS_STORAGE_CONF"]}
	for _, dir := range []string{"/usr/share/containers", "/etc/containers", filepath.Join(env.configDir(), "containers")} {
		for _, pattern := range []string{"*.conf", "*.conf.d/*"} {
			found, _ := filepath.Glob(filepath.Join(dir, pattern))
			files = append(files, found...)
		}
	}
	return files
}

// loadInfo returns the saved description of a key if it is valid.
func (e *Engine) loadInfo(mark string) (hostInfo, bool) {
	var k savedInfo
	data, err := os.ReadFile(filepath.Join(e.config.Dir, savedInfoName))
	if mark == "" || err != nil || json.Unmarshal(data, &k) != nil || k.Mark != mark {
		return hostInfo{}, false
	}
	age := time.Since(k.At)
	return k.Info, age >= 0 && age < savedInfoLifetime
}

// saveInfo saves a description. If that fails, the next process queries it again.
func (e *Engine) saveInfo(mark string, h hostInfo) {
	if data, err := json.Marshal(savedInfo{mark, time.Now(), h}); mark != "" && err == nil {
		_ = statefile.Replace(filepath.Join(e.config.Dir, savedInfoName), "podman", data, 0o600)
	}
}

// forgetInfo makes the next process query again.
func (e *Engine) forgetInfo() {
	if e.config.Dir != "" {
		os.Remove(filepath.Join(e.config.Dir, savedInfoName))
	}
}
