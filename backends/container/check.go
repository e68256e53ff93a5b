package container

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

var gpuIndex = lazy.Regexp(`^(0|[1-9][0-9]?)$`)

// CheckGPUs refuses lists other than indices or "all": they become part of device names. All errors are a
// *backends.Refusal.
func CheckGPUs(gpus []string) error {
	if len(gpus) == 1 && gpus[0] == "all" {
		return nil
	}
	refuse := func(why string) error {
		return backends.Refuse(why, "use ", remedy.GPUs.With("all"), ", ", remedy.GPUs.With("none"), ", or indices such as ",
			remedy.GPUs.With("0,1"))
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

// remedies are the remedies for unavailable layers.
var remedies = map[string]remedy.Text{
	backends.LayerUser:     {"use rootless Podman or Docker, give dockerd userns-remap, or use ", remedy.Backend.With("process")},
	backends.LayerTime:     {"use ", remedy.Backend.With("process"), ": engines create no time namespaces"},
	backends.LayerCgroupNS: {"use a newer engine, or a host with cgroup v2"},
	backends.LayerLandlock: {"use a kernel of 5.13 or newer with lsm=landlock,... on its command line"},
	backends.LayerCgroup:   {"use cgroup v2 with systemd, and for rootless engines delegate cpu, memory and pids to users"},
}

const (
	noTime  = "shared with the host: engines create none"
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

// checkRequire refuses layers that no container has, before a container is made.
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

// checkRequired refuses required layers that the engine did not provide. The init checks the others.
func (i Info) checkRequired(required []string, layers []backends.Layer) error {
	for _, l := range layers {
		if slices.Contains(required, l.Name) && !l.InForce {
			return i.refuseLayer(l.Name, l.Detail)
		}
	}
	return nil
}
