package backends

import (
	"fmt"
	"path/filepath"
)

// DockerSockets returns a user's default Docker socket paths: rootless Docker's, the system's, Docker Desktop's.
// env looks up an environment variable.
func DockerSockets(env func(name string) string, uid int) []string {
	var paths []string
	if uid != 0 || env("XDG_RUNTIME_DIR") != "" {
		paths = []string{filepath.Join(RuntimeDir(env, uid), "docker.sock")}
	}
	paths = append(paths, "/run/docker.sock", "/var/run/docker.sock")
	if home := env("HOME"); home != "" {
		paths = append(paths, filepath.Join(home, ".docker/run/docker.sock"), filepath.Join(home, ".docker/desktop/docker.sock"))
	}
	return paths
}

// PodmanSocket returns a user's default Podman socket path.
func PodmanSocket(env func(name string) string, uid int) string {
	if uid == 0 {
		return "/run/podman/podman.sock"
	}
	return filepath.Join(RuntimeDir(env, uid), "podman", "podman.sock")
}

// EngineSockets returns the usual socket paths of this machine's engines, for a user and for root.
func EngineSockets(env func(name string) string, uid int) []string {
	return append(DockerSockets(env, uid), PodmanSocket(env, uid), PodmanSocket(env, 0),
		filepath.Join(RuntimeDir(env, uid), "podman", "podman.sock"), // root's with a session
		"/run/containerd/containerd.sock", "/run/crio/crio.sock")
}

// RuntimeDir returns the directory of a user's sockets.
func RuntimeDir(env func(name string) string, uid int) string {
	if dir := env("XDG_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return fmt.Sprintf("/run/user/%d", uid)
}
