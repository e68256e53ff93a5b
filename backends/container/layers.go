package container

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
)

// namespaceOf maps a layer to its link in /proc/self/ns.
var namespaceOf = map[string]string{
	backends.LayerUser: "user", backends.LayerMount: "mnt", backends.LayerPID: "pid", backends.LayerNet: "net",
	backends.LayerIPC: "ipc", backends.LayerUTS: "uts", backends.LayerCgroupNS: "cgroup", backends.LayerTime: "time",
}

// initialNamespaces are the inode numbers of the kernel's initial namespaces (PROC_*_INIT_INO): a container that
// sees one of them shares it with the engine's machine, also a remote one.
var initialNamespaces = map[string]string{
	"user": "user:[4026531837]", "pid": "pid:[4026531836]", "ipc": "ipc:[4026531839]",
	"uts": "uts:[4026531838]", "cgroup": "cgroup:[4026531835]", "time": "time:[4026531834]",
}

// evidence holds the facts that determine the layers of a container.
type evidence struct {
	facts         call.Facts
	info          Info
	ownNamespaces map[string]string // links of our own namespaces; nil if the engine is on another machine
	image         string            // name and digest
	ports         []int
	keepID        int // the program's user on the host, -1 if only the map tells
}

// ownNamespaces reads the links of our own namespaces.
func ownNamespaces() map[string]string {
	links := map[string]string{}
	for _, name := range namespaceOf {
		if to, err := os.Readlink("/proc/self/ns/" + name); err == nil {
			links[name] = to
		}
	}
	return links
}

// layers returns the layers that the engine provides, as observed by PID 1, in the order of
// backends.ContainmentLayers and without those that only a program can confirm.
func (v evidence) layers() []backends.Layer {
	var all []backends.Layer
	for _, name := range backends.ContainmentLayers {
		if namespaceOf[name] == "" {
			continue
		}
		l := backends.Layer{Name: name}
		why := v.missingReason(name)
		l.InForce, l.Detail = why == "", why
		if l.InForce {
			l.Detail = v.detail(name)
		}
		if name == backends.LayerMount {
			l.Detail = strings.TrimPrefix(l.Detail+", image "+v.image, ", ")
		}
		all = append(all, l)
	}
	return all
}

// checkInit refuses a container whose PID 1 was not started as requested. Each program's own layers are confirmed
// inside once more; but such an engine may have left out other things as well.
func (v evidence) checkInit() error {
	switch f := v.facts; {
	case f.Caps != 0:
		return v.info.refuseLayer(backends.LayerCaps, fmt.Sprintf("the engine left capabilities to the container: %x", f.Caps))
	case !f.NoNewPrivs:
		return v.info.refuseLayer(backends.LayerNNP, "the engine lets programs in the container gain privileges")
	case !f.Seccomp && v.info.Local:
		return v.info.refuseLayer(backends.LayerSeccomp, "the engine filters no system calls of the container")
	}
	return nil
}

// cgroup returns the layer for the container's limits.
func (v evidence) cgroup() backends.Layer {
	l := backends.Layer{Name: backends.LayerCgroup, Detail: v.facts.Cgroup}
	controllers := strings.Fields(v.facts.Cgroup)
	all := slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids") && slices.Contains(controllers, "cpu")
	switch {
	case !v.info.Limits && v.facts.Cgroup == "":
		l.Detail = "this engine can't set limits"
	case !v.info.Limits: // the visible limits may be those of the engine itself
		l.Detail = "this engine can't set all of these limits: memory, processes and CPU time"
	case v.facts.Cgroup == "":
		l.Detail = "the container sees no limits of its own"
	case !all:
		l.Detail = "only " + v.facts.Cgroup
	}
	l.InForce = v.info.Limits && all
	return l
}

// missingReason returns the reason why a layer is missing, "" if it is in force.
func (v evidence) missingReason(layer string) string {
	f, kind := v.facts, namespaceOf[layer]
	link := f.Namespaces[kind]
	switch {
	case link == "":
		return "the container's namespace is unknown"
	case link == initialNamespaces[kind] || v.ownNamespaces != nil && link == v.ownNamespaces[kind]:
		return v.sharedDetail(layer)
	case layer == backends.LayerUser && identityMap(f.UIDMap):
		return "the engine's machine runs in a user namespace that maps all users"
	case layer == backends.LayerMount && !f.ReadOnly:
		return "the root directory is writable"
	case layer == backends.LayerPID && f.PID != 1:
		return "the init is not the first process"
	case layer == backends.LayerNet && !onlyLoopback(f.Interfaces) && len(f.Probed) == 0:
		return fmt.Sprintf("it has network interfaces: %v", f.Interfaces)
	case layer == backends.LayerNet && len(f.Answered) > 0 && len(v.ports) > 0:
		return fmt.Sprintf("the network policy is not enforced, %s answered: programs can have no internet sockets, and so no gateway",
			strings.Join(f.Answered, ", "))
	case layer == backends.LayerUTS && f.Hostname != hostname:
		return "the host name is " + f.Hostname
	case layer == backends.LayerCgroupNS && !f.CgroupRoot:
		return "the container sees its cgroup path on the host"
	}
	return ""
}

// sharedDetail returns the detail of a namespace layer that is shared with the host.
func (v evidence) sharedDetail(layer string) string {
	switch layer {
	case backends.LayerUser:
		return fmt.Sprintf("%s; host uid %d", noUsers, v.facts.UID)
	case backends.LayerTime:
		return noTime
	}
	return "shared with the host"
}

func (v evidence) detail(layer string) string {
	switch layer {
	case backends.LayerUser:
		if v.keepID >= 0 {
			return fmt.Sprintf("host uid %d", v.keepID)
		}
		if uid, ok := hostUID(v.facts.UIDMap, v.facts.UID); ok {
			return fmt.Sprintf("host uid %d", uid)
		}
	case backends.LayerNet:
		if d := v.probeDetail(); d != "" {
			return d
		}
		if len(v.ports) > 0 {
			return fmt.Sprintf("loopback only, with a gateway on ports %v", v.ports)
		}
		return "empty, loopback only"
	}
	return ""
}

// probeDetail describes a non-empty network as far as probes have tested it; "" for an empty one.
func (v evidence) probeDetail() string {
	f := v.facts
	switch {
	case onlyLoopback(f.Interfaces) || len(f.Probed) == 0:
		return ""
	case len(f.Answered) > 0: // each program confirms that it has none, or does not start
		return fmt.Sprintf("programs have no internet sockets: %s answered", strings.Join(f.Answered, ", "))
	case len(v.ports) > 0:
		return fmt.Sprintf("network policy: none of %d probes was answered; a gateway on ports %v", len(f.Probed), v.ports)
	}
	return fmt.Sprintf("network policy: none of %d probes was answered", len(f.Probed))
}

// tunnels are devices that some kernel modules put into each network namespace; they are down and have no address
// (net.core.fb_tunnels_only_for_init_net).
var tunnels = []string{"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0", "ip6gre0", "ip_vti0", "ip6_vti0"}

func onlyLoopback(interfaces []string) bool {
	return !slices.ContainsFunc(interfaces, func(name string) bool { return name != "lo" && !slices.Contains(tunnels, name) })
}

// identityMap reports whether a uid_map maps every user ID to itself.
func identityMap(text string) bool {
	return slices.Equal(strings.Fields(text), []string{"0", "0", "4294967295"})
}

// hostUID maps a user ID by a uid_map, whose lines are the first ID inside, the first outside, and a count.
func hostUID(text string, uid int) (int, bool) {
	for line := range strings.Lines(text) {
		var first, outside, count int
		if n, _ := fmt.Sscan(line, &first, &outside, &count); n == 3 && uid >= first && uid-first < count {
			return outside + uid - first, true
		}
	}
	return 0, false
}

// mergeLayers returns a program's layers: its container's, and those that it confirmed itself.
func mergeLayers(engines []backends.Layer, cgroup backends.Layer, programs []backends.Layer) []backends.Layer {
	confirmed := func(name string) backends.Layer {
		if i := slices.IndexFunc(programs, func(l backends.Layer) bool { return l.Name == name }); i >= 0 {
			return programs[i]
		}
		return backends.Layer{Name: name, Detail: "not reported"}
	}
	all := slices.Clone(engines)
	for _, name := range backends.ContainmentLayers {
		if namespaceOf[name] == "" {
			all = append(all, confirmed(name))
		}
	}
	return append(all, cgroup, confirmed(backends.LayerRlimit))
}
