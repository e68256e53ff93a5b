package container

import (
	"fmt"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// remedies say what to type where a layer can't be had.
var remedies = map[string]string{
	backends.LayerUser:     "use rootless Podman or Docker, give dockerd userns-remap, or use --backend process",
	backends.LayerTime:     "use --backend process: engines make no time namespace",
	backends.LayerCgroupNS: "use a newer engine, or a host with cgroup v2",
	backends.LayerLandlock: "use a kernel of 5.13 or newer with lsm=landlock,... on its command line",
	backends.LayerCgroup:   "use cgroup v2 with systemd, and for rootless engines delegate cpu, memory and pids to users",
}

const (
	noTime  = "shared with the host: engines make none"
	noUsers = "shared with the host: this engine maps no users"
)

func refuseLayer(layer, why string) error {
	return &backends.Refusal{Layer: layer, Reason: why, Remedy: remedies[layer]}
}

// checkRequire refuses layers that no container has, before one is made.
func checkRequire(engine string, required []string) error {
	known := append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit)
	for _, name := range required {
		if !slices.Contains(known, name) {
			return refuseLayer(name, fmt.Sprintf("the %s backend has no such layer", engine))
		}
		if name == backends.LayerTime {
			return refuseLayer(name, noTime)
		}
	}
	return nil
}

// satisfies checks the layers that are required against those that the engine gave. The others are the init's
// to refuse.
func satisfies(required []string, layers []backends.Layer) error {
	for _, l := range layers {
		if slices.Contains(required, l.Name) && !l.InForce {
			return refuseLayer(l.Name, l.Detail)
		}
	}
	return nil
}
