package backendtest

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// engineSockets returns the usual sockets of container engines: a program that reaches one is root on its host.
func engineSockets() []string {
	return []string{"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock", "/host/run/docker.sock"}
}

// containerTarget starts a listener, whatever services this host has.
func containerTarget(t *testing.T) map[string]any {
	target, _ := networkTarget(t)
	return map[string]any{"sockets": engineSockets(), "listens": target["path"]}
}

// testContainer: holes of containers that processes do not have: the image's settings, the engine's sockets, and a first
// process with the program's user.
func testContainer(t *testing.T, b *bench) {
	b.layer(t, backends.LayerPID)
	b.attack(t, "container.py", containerTarget(t))
	t.Run("the first process goes on", func(t *testing.T) {
		s := b.session(t, "python")
		o := exec(t, s, "python", "-c", "import os, signal\nfor n in sorted(signal.valid_signals()):\n  for _ in range(3):\n    try: os.kill(1, n)\n    except OSError: pass\nprint('sent')")
		if o.ok(t).Stdout != "sent\n" {
			t.Errorf("got %q", o.Stdout)
		}
		if o := exec(t, s, "bash", "-c", "echo alive"); o.Stdout != "alive\n" || o.Ended != backends.EndedOK {
			t.Errorf("afterwards: ended %s, %q", o.Ended, o.Stdout)
		}
	})
}
