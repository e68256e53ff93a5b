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

// alternatives are the backends for people without Docker.
const alternatives = "--backend podman and --backend process need no Docker"

// refuseSocket explains why the socket at path does not answer, with a remedy.
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
			Remedy: startCommand(path) + "; " + alternatives,
		}
	case errors.Is(err, fs.ErrNotExist):
		if _, err := exec.LookPath("dockerd"); err == nil {
			return &backends.Refusal{
				Reason: fmt.Sprintf("Docker is installed, but not running: there is no socket %s", path),
				Remedy: startCommand(path) + "; " + alternatives,
			}
		}
		return &backends.Refusal{
			Reason: fmt.Sprintf("Docker is not here: there is no socket %s", path),
			Remedy: "install it (https://docs.docker.com/engine/install/), or set DOCKER_HOST; " + alternatives,
		}
	}
	return fmt.Errorf("connect with Docker at %s: %w", path, err)
}

// startCommand is the command that starts the Docker whose socket is at path.
func startCommand(path string) string {
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

// explain adds the operation to an error of the library, and returns a refusal where people can help.
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
		return l.unreachable(doing, err)
	case errdefs.IsUnauthorized(err):
		return &backends.Refusal{Reason: doing + ": " + engineMessage(err), Remedy: "docker login"}
	}
	return fmt.Errorf("%s: %w", doing, engineError{err})
}

// engineError is an error with the engine's text, made safe for people.
type engineError struct{ error }

func (s engineError) Error() string { return engine.Plain(s.error.Error()) }
func (s engineError) Unwrap() error { return s.error }

// unreachable explains why an engine that was reached before, or one behind a network, can't be reached.
func (l *link) unreachable(doing string, err error) error {
	path, ok := strings.CutPrefix(l.endpoint.url, "unix://")
	if ok {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		if now := probeSocket(ctx, path); now != nil {
			return refuseSocket(path, now)
		}
		return fmt.Errorf("%s: %w", doing, err) // it answers again
	}
	return &backends.Refusal{
		Reason: fmt.Sprintf("%s: Docker does not answer at %s: %s", doing, l.endpoint.url, engineMessage(err)),
		Remedy: "docker -H " + l.endpoint.url + " version shows whether it can be reached from here",
	}
}

// engineMessage is the engine's message, for people.
func engineMessage(err error) string {
	return engine.Plain(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
}
