//go:build linux

package backendtest

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testContained: a program has exactly the layers that its result lists.
func testContained(t *testing.T, b *bench) {
	c := testLayers(t, b)
	t.Run("also when it fails", func(t *testing.T) {
		o := b.shell(t, "exit 3")
		if d := cmp.Diff(c.InForce(), o.Contained.InForce()); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	})
	if !b.o.Warm {
		t.Run("required", func(t *testing.T) { testRequire(t, b, c) })
	}
}

func testLayers(t *testing.T, b *bench) backends.Containment {
	o := b.runProgramFile(t, b.spec("python"), "facts.py").mustSucceed(t)
	c := o.Contained
	t.Run("says all", func(t *testing.T) {
		if c.Backend != b.backend.Name() {
			t.Errorf("backend %q", c.Backend)
		}
		if c.Profile == "" {
			t.Error("no profile")
		}
		var names []string
		for _, l := range c.Layers {
			names = append(names, l.Name)
			if l.Detail == "" && !l.InForce {
				t.Errorf("layer %s is not in force, and nothing says why", l.Name)
			}
			t.Logf("%-9s %v %s", l.Name, l.InForce, l.Detail)
		}
		want := append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit)
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		for _, name := range b.o.Layers {
			if !slices.Contains(c.InForce(), name) {
				t.Errorf("layer %s is promised and not in force", name)
			}
		}
		if b.o.Cgroup != slices.Contains(c.InForce(), backends.LayerCgroup) {
			t.Errorf("cgroup in force: %v, want %v", !b.o.Cgroup, b.o.Cgroup)
		}
		if !slices.Contains(c.InForce(), backends.LayerRlimit) {
			t.Error("rlimit is not in force")
		}
	})
	t.Run("is true", func(t *testing.T) {
		var facts map[string]any
		if err := json.Unmarshal([]byte(o.Stdout), &facts); err != nil {
			t.Fatal(err, o.Stdout)
		}
		if b.promises(backends.LayerUser) && facts["bounding"] != float64(0) {
			// A user without capabilities can't empty this set.
			t.Errorf("bounding set is %v", facts["bounding"])
		}
		for _, l := range c.Layers {
			if seen, known := seenInside(l.Name, facts); known && seen != l.InForce {
				t.Errorf("layer %s is claimed %v (%s), but from inside it is %v", l.Name, l.InForce, l.Detail, seen)
			}
		}
	})
	return c
}

// seenInside compares a program's view with the host's. known is false for a layer that can't be judged from
// inside.
func seenInside(layer string, facts map[string]any) (seen, known bool) {
	for name, l := range namespaces() {
		if l != layer {
			continue
		}
		inside, _ := facts["ns"].(map[string]any)[name].(string)
		host, there := hostNamespaces()[name].(string)
		return inside != "" && inside != host, there
	}
	switch layer {
	case backends.LayerCaps:
		return facts["caps"] == float64(0), true
	case backends.LayerNNP:
		return facts["NoNewPrivs"] == "1", true
	case backends.LayerSeccomp:
		return facts["Seccomp"] == "2", true
	case backends.LayerLandlock:
		return facts["landlock"] == true, facts["landlock"] != nil
	}
	return false, false
}

// testRequire: a missing layer refuses the start.
func testRequire(t *testing.T, b *bench, c backends.Containment) {
	all := append(slices.Clone(backends.ContainmentLayers), backends.LayerCgroup, backends.LayerRlimit)
	for _, name := range append(all, "no-such-layer") {
		spec := b.spec("shell")
		spec.Require = []string{name}
		err := b.startRefused(t, spec)
		refusal, is := errors.AsType[*backends.Refusal](err)
		switch there := slices.Contains(c.InForce(), name); {
		case there && err != nil:
			t.Errorf("%s is there, and requiring it fails: %v", name, err)
		case !there && (!is || refusal.Reason == ""):
			t.Errorf("%q can't be had, and requiring it gives %v, want a refusal with a reason", name, err)
		}
	}
	for _, profile := range []string{"no-such-profile", "Hardened", "none"} {
		spec := b.spec("shell")
		spec.Profile = profile
		if b.startRefused(t, spec) == nil {
			t.Errorf("profile %q started", profile)
		}
	}
	if b.startRefused(t, b.spec("cobol")) == nil {
		t.Error("language cobol started")
	}
}

// engineSockets returns the usual sockets of container engines: a program that can connect to one is root on its
// host.
func engineSockets() []string {
	return []string{"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
		"/run/crio/crio.sock", "/host/run/docker.sock"}
}

// containerTarget starts a listener that is independent of this host's services.
func containerTarget(t *testing.T) map[string]any {
	target, _ := networkTarget(t)
	return map[string]any{"sockets": engineSockets(), "listens": target["path"]}
}

// testContainer attacks the surface that only containers have: the image's settings, the engine's sockets, and a
// PID 1 with the program's user.
func testContainer(t *testing.T, b *bench) {
	b.needLayer(t, backends.LayerPID)
	b.checkAttacks(t, "container.py", containerTarget(t))
	t.Run("the first process goes on", func(t *testing.T) {
		s := b.session(t, "python")
		o := mustExec(t, s, "python", "-c", "import os, signal\nfor n in sorted(signal.valid_signals()):\n  for _ in range(3):\n    try: "+
			"os.kill(1, n)\n    except OSError: pass\nprint('sent')")
		if o.mustSucceed(t).Stdout != "sent\n" {
			t.Errorf("got %q", o.Stdout)
		}
		if o := mustExec(t, s, "bash", "-c", "echo alive"); o.Stdout != "alive\n" || o.Ended != backends.EndedOK {
			t.Errorf("afterwards: ended %s, %q", o.Ended, o.Stdout)
		}
	})
}
