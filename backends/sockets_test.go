package backends

import (
	"runtime"
	"slices"
	"testing"
)

func TestEngineSockets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has pipes")
	}
	session := map[string]string{"XDG_RUNTIME_DIR": "/session", "HOME": "/home/u"}
	for _, test := range []struct {
		name    string
		env     map[string]string
		uid     int
		docker  string // the first path
		podman  string
		further []string
	}{
		{"a session", session, 1000, "/session/docker.sock", "/session/podman/podman.sock",
			[]string{"/home/u/.docker/run/docker.sock", "/home/u/.docker/desktop/docker.sock"}},
		{"no session", nil, 1000, "/run/user/1000/docker.sock", "/run/user/1000/podman/podman.sock", nil},
		{"root", session, 0, "/session/docker.sock", "/run/podman/podman.sock", []string{"/session/podman/podman.sock"}},
		{"root without one", nil, 0, "/run/docker.sock", "/run/podman/podman.sock", nil},
	} {
		env := func(name string) string { return test.env[name] }
		if got := DockerSockets(env, test.uid)[0]; got != test.docker {
			t.Errorf("%s: Docker's is %s, want %s", test.name, got, test.docker)
		}
		if got := PodmanSocket(env, test.uid); got != test.podman {
			t.Errorf("%s: Podman's is %s, want %s", test.name, got, test.podman)
		}
		all := EngineSockets(env, test.uid)
		for _, want := range append(test.further, test.docker, test.podman, "/run/docker.sock", "/var/run/docker.sock",
			"/run/podman/podman.sock") {
			if !slices.Contains(all, want) {
				t.Errorf("%s: %s is not in %q", test.name, want, all)
			}
		}
	}
}
