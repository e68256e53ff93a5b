package container

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// reservedPrefixes begin the keys that mean something to us, or to engines and the programs that watch them.
var reservedPrefixes = []string{"sandboxmcp.", "com.docker.", "io.docker.", "org.dockerproject.", "io.podman.", "io.containers.", "io.buildah.", "podman_systemd_unit"}

const (
	maxLabels     = 64
	maxLabelKey   = 128  // bytes
	maxLabelValue = 4096 // bytes
)

// CheckLabels refuses labels that containers can't carry. All errors are a *backends.Refusal.
func CheckLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return backends.Refuse(fmt.Sprintf("%d labels are more than %d", len(labels), maxLabels), "give fewer labels")
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if err := checkLabel(key, labels[key]); err != nil {
			return err
		}
	}
	return nil
}

func checkLabel(key, value string) error {
	reserved := func(prefix string) bool { return strings.HasPrefix(strings.ToLower(key), prefix) }
	switch {
	case key == "" || len(key) > maxLabelKey:
		return refuseLabel(key, fmt.Sprintf("is empty or longer than %d bytes", maxLabelKey))
	case strings.ContainsFunc(key, func(r rune) bool { return !strings.ContainsRune(keyRunes, r) }):
		return refuseLabel(key, "has other characters than letters, digits and ./_-")
	case slices.ContainsFunc(reservedPrefixes, reserved):
		return refuseLabel(key, "begins as those that are not for you to set")
	case len(value) > maxLabelValue || !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuseLabel(key, fmt.Sprintf("has a value with control characters, or one longer than %d bytes", maxLabelValue))
	}
	return nil
}

const keyRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-"

func refuseLabel(key, why string) error {
	return backends.Refuse(fmt.Sprintf("label %.200q %s", key, why), "choose another one")
}

var gpuIndex = lazy.Regexp(`^(0|[1-9][0-9]?)$`)

// CheckGPUs refuses lists that are neither indices nor "all": they become part of device names. All errors are a
// *backends.Refusal.
func CheckGPUs(gpus []string) error {
	if len(gpus) == 1 && gpus[0] == "all" {
		return nil
	}
	refuse := func(why string) error {
		return backends.Refuse(why, "use ", remedy.GPUs.With("all"), ", ", remedy.GPUs.With("none"), ", or indices such as ", remedy.GPUs.With("0,1"))
	}
	for i, gpu := range gpus {
		if !gpuIndex().MatchString(gpu) {
			return refuse(fmt.Sprintf("%.100q names no graphics processors", strings.Join(gpus, ",")))
		}
		if slices.Contains(gpus[:i], gpu) {
			return refuse("graphics processor " + gpu + " is listed twice")
		}
	}
	return nil
}

// remedies are the remedies for layers that can't be had.
var remedies = map[string]remedy.Text{
	backends.LayerUser:     {"use rootless Podman or Docker, give dockerd userns-remap, or use ", remedy.Backend.With("process")},
	backends.LayerTime:     {"use ", remedy.Backend.With("process"), ": engines make no time namespace"},
	backends.LayerCgroupNS: {"use a newer engine, or a host with cgroup v2"},
	backends.LayerLandlock: {"use a kernel of 5.13 or newer with lsm=landlock,... on its command line"},
	backends.LayerCgroup:   {"use cgroup v2 with systemd, and for rootless engines delegate cpu, memory and pids to users"},
}

const (
	noTime  = "shared with the host: engines make none"
	noUsers = "shared with the host: this engine maps no users"
)

func (i Info) refuseLayer(layer, why string) error {
	return &backends.Refusal{Layer: layer, Reason: why, Remedy: i.remedies()[layer]}
}

// remedies returns the remedies for all layers that this engine may lack.
func (i Info) remedies() map[string]remedy.Text {
	all := maps.Clone(remedies)
	maps.Copy(all, i.Remedies)
	return all
}

// checkRequire refuses layers that no container has, before one is made.
func checkRequire(engine string, required []string) error {
	known := append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit)
	for _, name := range required {
		if !slices.Contains(known, name) {
			return Info{}.refuseLayer(name, fmt.Sprintf("the %s backend has no such layer", engine))
		}
		if name == backends.LayerTime {
			return Info{}.refuseLayer(name, noTime)
		}
	}
	return nil
}

// satisfies refuses required layers that the engine did not give. The others are the init's to refuse.
func (i Info) satisfies(required []string, layers []backends.Layer) error {
	for _, l := range layers {
		if slices.Contains(required, l.Name) && !l.InForce {
			return i.refuseLayer(l.Name, l.Detail)
		}
	}
	return nil
}
