package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// parseContainment parses the status message that a program's process sends just before execve: its namespaces and
// /proc/self/status. The steps of its plan that test a layer have succeeded by then, or the process would have
// ended.
func (s *Sandbox) parseContainment(text []byte) backends.Containment {
	profile := "hardened"
	if s.landlockOnly {
		profile = "landlock"
	}
	c := backends.Containment{Backend: "process", Profile: profile, Layers: make([]backends.Layer, 0, len(backends.ContainmentLayers)+2)}
	add := func(name string, held bool, detail string) {
		c.Layers = append(c.Layers, backends.Layer{Name: name, InForce: held, Detail: detail})
	}
	differs := namespacesDiffer(text)
	lines := string(text[min(len(text), linkSize*len(namespaceLinks)):])
	status := func(key string) string { return procfs.StatusField(lines, key) }
	for i, name := range namespaceLayers {
		add(name, differs[i], s.describeLayer(name, differs[i]))
	}
	if s.backend.landlockABI > 0 {
		add(backends.LayerLandlock, true, fmt.Sprintf("ABI %d", s.backend.landlockABI))
	} else { // only inside a container, or it would not have started
		add(backends.LayerLandlock, false, noLandlock.Reason)
	}
	add(backends.LayerSeccomp, status("Seccomp") == "2", "filters: "+status("Seccomp_filters"))
	none := true
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		// An ordinary user can empty the bounding set only in a user namespace; without new privileges it has no
		// effect.
		bounding := set == "CapBnd" && s.landlockOnly && status("NoNewPrivs") == "1"
		none = none && (bounding || status(set) == "0000000000000000")
	}
	add(backends.LayerCaps, none, "effective: "+status("CapEff")+", bounding: "+status("CapBnd"))
	add(backends.LayerNNP, status("NoNewPrivs") == "1", "")
	if s.cgroup != nil && s.cgroup.CheckMember(s.pid) == nil {
		add(backends.LayerCgroup, true, s.cgroup.Detail())
	} else {
		add(backends.LayerCgroup, false, s.backend.cgroups.Why)
	}
	add(backends.LayerRlimit, true, s.rlimitDetail())
	return c
}

// expectedContainment returns the containment that parseContainment should find; Start refuses if it is not enough.
func (s *Sandbox) expectedContainment() backends.Containment {
	layers := make([]backends.Layer, 0, len(backends.ContainmentLayers)+2)
	for _, name := range backends.ContainmentLayers {
		missing := !s.HasNamespaces() && slices.Contains(namespaceLayers, name) ||
			name == backends.LayerLandlock && s.backend.landlockABI == 0
		layers = append(layers, backends.Layer{Name: name, InForce: !missing, Detail: s.describeLayer(name, !missing)})
	}
	cgroup := backends.Layer{Name: backends.LayerCgroup, InForce: s.cgroup != nil, Detail: s.backend.cgroups.Why}
	return backends.Containment{Layers: append(layers, cgroup, backends.Layer{Name: backends.LayerRlimit, InForce: true})}
}

// namespaceLayers are the layers of namespaceLinks.
var namespaceLayers = []string{
	backends.LayerUser, backends.LayerMount, backends.LayerPID, backends.LayerNet,
	backends.LayerIPC, backends.LayerUTS, backends.LayerCgroupNS, backends.LayerTime,
}

// describeLayer describes a layer for people.
func (s *Sandbox) describeLayer(layer string, held bool) string {
	switch {
	case layer == backends.LayerLandlock && !held:
		return noLandlock.Reason
	case !held && s.inContainer:
		return "the container's"
	case !held && layer == backends.LayerMount:
		return "shared with the host in this profile: programs can stat every file, but open only visible ones"
	case !held:
		return "shared with the host in this profile"
	case layer == backends.LayerMount && s.copied != "":
		return "the workspace is a copy: " + s.copied
	case layer == backends.LayerMount && s.host.Propose:
		return "the workspace is an overlay"
	case layer == backends.LayerUser:
		return fmt.Sprintf("host uid %d", s.hostUID())
	case layer == backends.LayerNet && len(s.gatewayPorts) > 0:
		return fmt.Sprintf("loopback only, with a gateway on ports %v", s.gatewayPorts)
	case layer == backends.LayerNet:
		return "empty, loopback only"
	}
	return ""
}

// rlimitDetail describes the layer of resource limits for people.
func (s *Sandbox) rlimitDetail() string {
	if s.cgroup == nil {
		return "each process, and a watcher of the whole tree"
	}
	return "each process"
}

// namespacesDiffer compares the links of namespaceLinks with the server's.
func namespacesDiffer(text []byte) []bool {
	out := make([]bool, len(namespaceLinks))
	ours := ownNamespaces()
	for i := range namespaceLinks {
		if len(text) < (i+1)*linkSize {
			return out
		}
		theirs := string(bytes.TrimRight(text[i*linkSize:(i+1)*linkSize], "\x00"))
		out[i] = ours[i] != "" && theirs != "" && theirs != ours[i]
	}
	return out
}

// ownNamespaces are the links of namespaceLinks of this process, which never change.
var ownNamespaces = sync.OnceValue(func() []string {
	ours := make([]string, len(namespaceLinks))
	for i, name := range namespaceLinks {
		ours[i], _ = os.Readlink("/proc/self/ns/" + name)
	}
	return ours
})

// checkRequired compares the layers that policy requires with those that the kernel confirmed.
func (s *Sandbox) checkRequired(c backends.Containment) error {
	for _, name := range s.require {
		i := slices.IndexFunc(c.Layers, func(l backends.Layer) bool { return l.Name == name })
		if i < 0 {
			return refusal(name, "the process backend has no such layer")
		}
		if !c.Layers[i].InForce {
			return refusal(name, c.Layers[i].Detail)
		}
	}
	return nil
}
