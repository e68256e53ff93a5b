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

// savedInfo is what a service on this machine last said of itself, kept for the next process: to answer, Podman asks the
// package manager about its parts, which takes longer than to run a container. Nothing that is said to hold a program
// rests on it alone: that is read in the container.
type savedInfo struct {
	Mark string
	At   time.Time
	Info hostInfo
}

const savedInfoName = "podman-info.json"

// savedInfoLifetime is how long an answer is good at the most. What a mark does not see changes seldom.
const savedInfoLifetime = 24 * time.Hour

// infoKey stands for what a service's answer comes from: which one it is, since when the machine runs, and the programs,
// environment and configuration that Podman goes by. "" is that its answers are not kept.
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
	// What systemd lets an ordinary user limit.
	controllers, _ := os.ReadFile(fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@%[1]d.service/cgroup.controllers", os.Geteuid()))
	fmt.Fprintf(hash, "%s", controllers)
	return hex.EncodeToString(hash.Sum(nil))
}

// configuration are the files that Podman reads.
func (env environ) configuration() []string {
	own := env["XDG_CONFIG_HOME"]
	if own == "" {
		own = filepath.Join(env["HOME"], ".config")
	}
	files := []string{"/etc/subuid", "/etc/subgid", env["CONTAINERS_CONF"], env["CONTAINERS_CONF_OVERRIDE"], env["CONTAINERS_STORAGE_CONF"]}
	for _, dir := range []string{"/usr/share/containers", "/etc/containers", filepath.Join(own, "containers")} {
		for _, pattern := range []string{"*.conf", "*.conf.d/*"} {
			found, _ := filepath.Glob(filepath.Join(dir, pattern))
			files = append(files, found...)
		}
	}
	return files
}

// loadInfo returns what the service of a mark said last, if that is known.
func (e *Engine) loadInfo(mark string) (hostInfo, bool) {
	var k savedInfo
	data, err := os.ReadFile(filepath.Join(e.config.Dir, savedInfoName))
	if mark == "" || err != nil || json.Unmarshal(data, &k) != nil || k.Mark != mark {
		return hostInfo{}, false
	}
	age := time.Since(k.At)
	return k.Info, age >= 0 && age < savedInfoLifetime
}

// saveInfo keeps an answer. Where it can't be, the next process asks again.
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
