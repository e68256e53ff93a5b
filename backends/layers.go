package backends

import (
	"errors"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Containment lists the layers that were in force for a program, as read back from the kernel, not as requested.
type Containment struct {
	Backend string
	Profile string
	Layers  []Layer // in the order of the Layer constants
	PID     int     `json:",omitempty"` // of the program, inside
}

// Layer is one containment or resource layer of a sandbox.
type Layer struct {
	Name    string `json:"name" redact:"-"`
	InForce bool   `json:"in_force"`
	Detail  string `json:"detail,omitempty"` // specifics: "ABI 7", "v1: memory pids cpu"; or why the layer is not in force
}

// InForce returns the names of the layers in force.
func (c Containment) InForce() []string {
	var names []string
	for i, l := range c.Layers {
		if l.InForce {
			names = append(slices.Grow(names, len(c.Layers)-i), l.Name)
		}
	}
	return names
}

// Layers of containment and resources, in the order in which they are reported.
const (
	LayerUser     = "user"     // user namespace, and an unprivileged host uid
	LayerMount    = "mount"    // own root, built from nothing
	LayerPID      = "pid"      // own processes
	LayerNet      = "net"      // empty network namespace
	LayerIPC      = "ipc"      // own System V and POSIX queues
	LayerUTS      = "uts"      // own host name
	LayerCgroupNS = "cgroupns" // own view of cgroups
	LayerTime     = "time"     // own clocks' offsets
	LayerLandlock = "landlock" // file, TCP and IPC rights
	LayerSeccomp  = "seccomp"  // system calls
	LayerCaps     = "caps"     // no capabilities
	LayerNNP      = "nnp"      // no new privileges
	LayerCgroup   = "cgroup"   // limits enforced by the kernel (a resource layer)
	LayerRlimit   = "rlimit"   // limits of each process, and a watcher (a resource layer)
)

// ContainmentLayers are the layers that isolate a program; the profile "hardened" requires all of them. LayerCgroup and
// LayerRlimit limit resources, and are not among them.
var ContainmentLayers = []string{
	LayerUser, LayerMount, LayerPID, LayerNet, LayerIPC, LayerUTS, LayerCgroupNS, LayerTime,
	LayerLandlock, LayerSeccomp, LayerCaps, LayerNNP,
}

// EngineLayers are the containment layers that every container engine provides. A container has the other layers if
// the host does: a user namespace if the engine is rootless or maps users, Landlock if the kernel has it, a time
// namespace never.
var EngineLayers = []string{
	LayerMount, LayerPID, LayerNet, LayerIPC, LayerUTS, LayerCgroupNS, LayerSeccomp, LayerCaps, LayerNNP,
}

// UntriedLayers returns the layers of a probe whose sandbox could not be started because of err: the layer of a
// *Refusal with its reason, and all others as not tried.
func UntriedLayers(err error) []LayerProbe {
	refusal, is := errors.AsType[*Refusal](err)
	if !is {
		refusal = &Refusal{Reason: err.Error()}
	}
	var list []LayerProbe
	for _, name := range append(slices.Clone(ContainmentLayers), LayerCgroup, LayerRlimit) {
		l := LayerProbe{Layer: Layer{Name: name, Detail: "not tried"}}
		if name == refusal.Layer {
			l.Detail, l.Remedy = refusal.Reason, refusal.Remedy
		}
		list = append(list, l)
	}
	return list
}

// TriedLayers returns the layers of a sandbox in a probe's format, each missing one with its remedy.
func TriedLayers(layers []Layer, remedies map[string]remedy.Text) (list []LayerProbe) {
	for _, l := range layers {
		probe := LayerProbe{Layer: l}
		if !l.InForce {
			probe.Remedy = remedies[l.Name]
		}
		list = append(list, probe)
	}
	return list
}

// Probe describes the layers and runtimes of a host, for sandboxmcp doctor.
type Probe struct {
	Backend  string
	Usable   bool        // a sandbox of the requested profile can run
	Why      remedy.Text // why it is not usable, or the name of the engine
	Layers   []LayerProbe
	Runtimes []Runtime
}

// LayerProbe reports whether a layer is available on this host.
type LayerProbe struct {
	Layer
	Remedy remedy.Text // if it is not available
}

// Runtime is one interpreter found on the host or in an image.
type Runtime struct {
	Name    string // "python", "node", "shell"
	Path    string // the program itself, links and shims resolved; "" if missing
	Version string
	Why     remedy.Text // how it was found, or why it is missing and what to install
}
