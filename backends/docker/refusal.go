package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// elsewhere is what people without Docker can do.
const elsewhere = "--backend podman and --backend process need no Docker"

// refuseSocket says why the socket at path does not answer, and what to type.
func refuseSocket(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &backends.Refusal{
			Reason: fmt.Sprintf("this user may not use Docker's socket %s", path),
			Remedy: "sudo usermod -aG docker \"$USER\", and log in anew (that is as good as root); or set up a Docker of your own: dockerd-rootless-setuptool.sh install",
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &backends.Refusal{
			Reason: fmt.Sprintf("Docker is not running: nobody listens on %s", path),
			Remedy: wake(path) + "; " + elsewhere,
		}
	case errors.Is(err, fs.ErrNotExist):
		if _, err := exec.LookPath("dockerd"); err == nil {
			return &backends.Refusal{
				Reason: fmt.Sprintf("Docker is installed, but not running: there is no socket %s", path),
				Remedy: wake(path) + "; " + elsewhere,
			}
		}
		return &backends.Refusal{
			Reason: fmt.Sprintf("Docker is not here: there is no socket %s", path),
			Remedy: "install it (https://docs.docker.com/engine/install/), or set DOCKER_HOST; " + elsewhere,
		}
	}
	return fmt.Errorf("connect with Docker at %s: %w", path, err)
}

// wake is the command that starts the Docker that has its socket at path.
func wake(path string) string {
	switch {
	case runtime.GOOS == "darwin":
		return "open -a Docker"
	case runtime.GOOS == "windows" || strings.Contains(path, "/.docker/"):
		return "start Docker Desktop"
	case strings.HasPrefix(path, "/run/user/"):
		return "systemctl --user start docker"
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return "sudo systemctl start docker"
	}
	return "sudo service docker start"
}

// explain adds what was being done to an error of the library, and makes a refusal of those that
// people can do something about.
func (l *link) explain(doing string, err error) error {
	var refusal *backends.Refusal
	switch {
	case err == nil || errors.As(err, &refusal):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", doing, err)
	case strings.Contains(err.Error(), "could not select device driver"):
		return &backends.Refusal{
			Reason: "Docker has no driver for GPUs",
			Remedy: "install the NVIDIA Container Toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
		}
	case client.IsErrConnectionFailed(err):
		return l.lost(doing, err)
	case errdefs.IsUnauthorized(err):
		return &backends.Refusal{Reason: doing + ": " + answer(err), Remedy: "docker login"}
	}
	return fmt.Errorf("%s: %w", doing, said{err})
}

// said is an error in the engine's words, for people.
type said struct{ error }

func (s said) Error() string { return engine.Plain(s.error.Error()) }
func (s said) Unwrap() error { return s.error }

// lost says why an engine that was found before, or one behind a network, can't be reached.
func (l *link) lost(doing string, err error) error {
	path, ok := strings.CutPrefix(l.place.url, "unix://")
	if ok {
		ctx, cancel := context.WithTimeout(context.Background(), knockTime)
		defer cancel()
		if now := knock(ctx, path); now != nil {
			return refuseSocket(path, now)
		}
		return fmt.Errorf("%s: %w", doing, err) // it answers again
	}
	return &backends.Refusal{
		Reason: fmt.Sprintf("%s: Docker does not answer at %s: %s", doing, l.place.url, answer(err)),
		Remedy: "docker -H " + l.place.url + " version shows whether it can be reached from here",
	}
}

// answer is what the engine said, for people.
func answer(err error) string {
	return engine.Plain(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
}
