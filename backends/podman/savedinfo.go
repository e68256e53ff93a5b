package podman

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// savedInfo is the last description of a service on this machine, kept for the next process: to answer, Podman asks the
// package manager about its parts, which takes longer than to run a container. No layer in force rests on it alone:
// that is read in the container.
type savedInfo struct {
	Mark string
	At   time.Time
	Info hostInfo
}

const savedInfoName = "podman-info.json"

// savedInfoLifetime is how long a description holds at the most. Changes that its key does not cover are rare.
const savedInfoLifetime = 24 * time.Hour

// infoKey stands for the sources of a service's description: the service, the start of the machine, and the programs,
// environment and configuration that Podman uses. "" means that the description is not saved.
func (e *Engine) infoKey(p endpoint) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || p.path() == "" || e.config.Dir == "" {
		return ""
	}
	hash := sha256.New()
	fmt.Fprintln(hash, string(boot), os.Geteuid(), p.source, p.command)
	files := e.env.configuration()
	if p.source != ownService { // whose socket is always new
		fmt.Fprintln(hash, p.url)
		files = append(files, p.path())
	}
	for _, name := range []string{"podman", "crun", "runc"} {
		program, _ := engine.Program(e.env["PATH"], name)
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

// configuration lists the files that Podman reads.
func (env environ) configuration() []string {
	files := []string{"/etc/subuid", "/etc/subgid", env["CONTAINERS_CONF"], env["CONTAINERS_CONF_OVERRIDE"], env["CONTAINERS_STORAGE_CONF"]}
	for _, dir := range []string{"/usr/share/containers", "/etc/containers", filepath.Join(env.config(), "containers")} {
		for _, pattern := range []string{"*.conf", "*.conf.d/*"} {
			found, _ := filepath.Glob(filepath.Join(dir, pattern))
			files = append(files, found...)
		}
	}
	return files
}

// loadInfo returns the saved description of a key, if it still holds.
func (e *Engine) loadInfo(mark string) (hostInfo, bool) {
	var k savedInfo
	data, err := os.ReadFile(filepath.Join(e.config.Dir, savedInfoName))
	if mark == "" || err != nil || json.Unmarshal(data, &k) != nil || k.Mark != mark {
		return hostInfo{}, false
	}
	age := time.Since(k.At)
	return k.Info, age >= 0 && age < savedInfoLifetime
}

// saveInfo saves a description. If that fails, the next process asks again.
func (e *Engine) saveInfo(mark string, h hostInfo) {
	if data, err := json.Marshal(savedInfo{mark, time.Now(), h}); mark != "" && err == nil {
		_ = statefile.Replace(filepath.Join(e.config.Dir, savedInfoName), "podman", data, 0o600)
	}
}

// forgetInfo has the next process ask again.
func (e *Engine) forgetInfo() {
	if e.config.Dir != "" {
		os.Remove(filepath.Join(e.config.Dir, savedInfoName))
	}
}
