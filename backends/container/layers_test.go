package container

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
)

// goodEvidence returns an init's observations in a correct container.
func goodEvidence() evidence {
	f := call.Facts{
		PID: 1, UID: 1200, UIDMap: "         0     100000      65536\n", Interfaces: []string{"lo", "sit0"}, ReadOnly: true,
		Hostname: hostname, CgroupRoot: true, Cgroup: "v2: memory pids cpu",
		Namespaces: map[string]string{}, Seccomp: true, NoNewPrivs: true,
	}
	ours := map[string]string{}
	for _, kind := range namespaceOf {
		f.Namespaces[kind], ours[kind] = kind+":[4026532200]", kind+":[4026532100]"
	}
	f.Namespaces["time"] = initialNamespaces["time"]
	return evidence{facts: f, info: Info{Limits: true}, ownNamespaces: ours, image: "python:1@sha256:12", keepID: -1}
}

func inForce(layers []backends.Layer) (names []string) {
	for _, l := range layers {
		if l.InForce {
			names = append(names, l.Name)
		}
	}
	return names
}

func TestLayers(t *testing.T) {
	all := []string{backends.LayerUser, backends.LayerMount, backends.LayerPID, backends.LayerNet, backends.LayerIPC, backends.LayerUTS,
		backends.LayerCgroupNS}
	without := func(name string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return n == name })
	}
	for _, local := range []bool{true, false} {
		for _, tt := range []struct {
			name   string
			change func(*evidence)
			want   []string
		}{
			{"good", func(*evidence) {}, all},
			{"no facts", func(v *evidence) { v.facts = call.Facts{} }, nil},
			{"the first user namespace", func(v *evidence) { v.facts.Namespaces["user"] = initialNamespaces["user"] }, without(backends.LayerUser)},
			{"all users mapped", func(v *evidence) { v.facts.UIDMap = "0 0 4294967295" }, without(backends.LayerUser)},
			{"not PID 1", func(v *evidence) { v.facts.PID = 7 }, without(backends.LayerPID)},
			{"an interface", func(v *evidence) { v.facts.Interfaces = []string{"lo", "eth0"} }, without(backends.LayerNet)},
			{"a network whose probes nobody answers", func(v *evidence) {
				v.facts.Interfaces, v.facts.Probed = []string{"lo", "eth0"}, []string{"kubelet 10.0.0.1:10250"}
			}, all},
			{"a network that answers, without internet sockets", func(v *evidence) {
				v.facts.Interfaces, v.facts.Probed = []string{"lo", "eth0"}, []string{"kubelet 10.0.0.1:10250"}
				v.facts.Answered = v.facts.Probed
			}, all},
			{"a network that answers beside a gateway", func(v *evidence) {
				v.facts.Interfaces, v.facts.Probed = []string{"lo", "eth0"}, []string{"kubelet 10.0.0.1:10250"}
				v.facts.Answered, v.ports = v.facts.Probed, []int{443}
			}, without(backends.LayerNet)},
			{"writable root", func(v *evidence) { v.facts.ReadOnly = false }, without(backends.LayerMount)},
			{"the host's IPC", func(v *evidence) { v.facts.Namespaces["ipc"] = initialNamespaces["ipc"] }, without(backends.LayerIPC)},
			{"another name", func(v *evidence) { v.facts.Hostname = "server" }, without(backends.LayerUTS)},
			{"the host's cgroups", func(v *evidence) { v.facts.CgroupRoot = false }, without(backends.LayerCgroupNS)},
			{"a time namespace", func(v *evidence) { v.facts.Namespaces["time"] = "time:[1]" }, append(slices.Clone(all), backends.LayerTime)},
		} {
			v := goodEvidence()
			v.facts.Namespaces = maps.Clone(v.facts.Namespaces)
			if !local {
				v.ownNamespaces = nil
			}
			tt.change(&v)
			layers := v.layers()
			if got := inForce(layers); !slices.Equal(got, tt.want) {
				t.Errorf("%s (local %v): got %v, want %v", tt.name, local, got, tt.want)
			}
			for _, l := range layers {
				if !l.InForce && l.Detail == "" {
					t.Errorf("%s: nothing says why %s is not in force", tt.name, l.Name)
				}
				if l.Name == backends.LayerMount && !strings.HasSuffix(l.Detail, "image python:1@sha256:12") {
					t.Errorf("%s: the image is not in %q", tt.name, l.Detail)
				}
			}
		}
	}
	for _, kind := range namespaceOf {
		v := goodEvidence()
		v.ownNamespaces[kind] = v.facts.Namespaces[kind]
		if got := len(inForce(v.layers())); got != len(all)-1 && kind != "time" {
			t.Errorf("%s is shared with us, and %d layers are in force", kind, got)
		}
	}
}

func TestCheckInit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*evidence)
		layer  string // the refused layer, "" for none
	}{
		{"good", func(*evidence) {}, ""},
		{"a capability", func(v *evidence) { v.facts.Caps = 1 << 10 }, backends.LayerCaps},
		{"new privileges", func(v *evidence) { v.facts.NoNewPrivs = false }, backends.LayerNNP},
		{"no filter", func(v *evidence) { v.info.Local, v.facts.Seccomp = true, false }, backends.LayerSeccomp},
		{"no filter, where none can be sent", func(v *evidence) { v.facts.Seccomp = false }, ""},
	} {
		v := goodEvidence()
		tt.change(&v)
		var refusal *backends.Refusal
		if err := v.checkInit(); (err != nil) != (tt.layer != "") || err != nil && (!errors.As(err, &refusal) || refusal.Layer != tt.layer) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

func TestDetails(t *testing.T) {
	v := goodEvidence()
	v.ports = []int{80, 443}
	details := func() map[string]string {
		m := map[string]string{}
		for _, l := range v.layers() {
			m[l.Name] = l.Detail
		}
		return m
	}
	if got := details()[backends.LayerNet]; got != "loopback only, with a gateway on ports [80 443]" {
		t.Errorf("net: %q", got)
	}
	if got := details()[backends.LayerUser]; got != "host uid 101200" {
		t.Errorf("user: %q", got)
	}
	v.keepID, v.ports = 1000, nil
	if got := details()[backends.LayerUser]; got != "host uid 1000" {
		t.Errorf("user kept: %q", got)
	}
	if got := details()[backends.LayerNet]; got != "empty, loopback only" {
		t.Errorf("net: %q", got)
	}
	if c := v.cgroup(); !c.InForce || c.Detail != "v2: memory pids cpu" {
		t.Errorf("cgroup: %+v", c)
	}
	for _, tt := range []struct {
		limits bool
		seen   string
	}{{false, "v2: memory pids cpu"}, {false, "v2: memory pids"}, {false, ""}, {true, "v1: memory pids"}, {true, ""}} {
		v.info.Limits, v.facts.Cgroup = tt.limits, tt.seen
		if c := v.cgroup(); c.InForce || c.Detail == "" || c.Detail == tt.seen {
			t.Errorf("cgroup where the engine sets limits %v and the container sees %q: %+v", tt.limits, tt.seen, c)
		}
	}
}

func TestHostUID(t *testing.T) {
	const file = "0 1000 1\n1 100000 65536\nbad line here\n"
	for _, tt := range []struct {
		uid, want int
		ok        bool
	}{{0, 1000, true}, {1, 100000, true}, {65536, 165535, true}, {65537, 0, false}} {
		if got, ok := hostUID(file, tt.uid); got != tt.want || ok != tt.ok {
			t.Errorf("%d: got %d, %v", tt.uid, got, ok)
		}
	}
}

func TestMergeLayers(t *testing.T) {
	got := mergeLayers(goodEvidence().layers(), goodEvidence().cgroup(), []backends.Layer{{Name: backends.LayerCaps, InForce: true},
		{Name: backends.LayerPID, InForce: true, Detail: "not the init's to say"}})
	var names []string
	for _, l := range got {
		names = append(names, l.Name)
		if l.Detail == "not the init's to say" || l.Name == backends.LayerNNP && (l.InForce || l.Detail == "") {
			t.Errorf("got %+v", l)
		}
	}
	if want := append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit); !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
