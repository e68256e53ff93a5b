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
	"time"

	"github.com/containerd/errdefs"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// withoutDocker returns a remedy that also names the other backends, for machines without Docker.
func withoutDocker(do any) remedy.Text {
	return remedy.Text{do, "; ", remedy.Backend.With("podman"), " and ", remedy.Backend.With("process"), " need no Docker"}
}

// refuseSocket explains why the socket at path does not answer, with a remedy.
func refuseSocket(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return backends.Refuse(fmt.Sprintf("this user may not use Docker's socket %s", path),
			remedy.Command.With(`sudo usermod -aG docker "$USER"`), ", and log in again (the group is equivalent to root); or set up a Docker of "+
				"your own: dockerd-rootless-setuptool.sh install")
	case errors.Is(err, syscall.ECONNREFUSED):
		return backends.Refuse(fmt.Sprintf("Docker is not running: nobody listens on %s", path), withoutDocker(startCommand(path))...)
	case errors.Is(err, fs.ErrNotExist):
		if _, err := exec.LookPath("dockerd"); err == nil {
			return backends.Refuse(fmt.Sprintf("Docker is installed, but not running: there is no socket %s", path),
				withoutDocker(startCommand(path))...)
		}
		return backends.Refuse(fmt.Sprintf("Docker is not installed: there is no socket %s", path),
			withoutDocker("install it (https://docs.docker.com/engine/install/), or set DOCKER_HOST")...)
	}
	return fmt.Errorf("connect to Docker at %s: %w", path, err)
}

// startCommand returns the remedy that starts the Docker whose socket is at path.
func startCommand(path string) any {
	switch {
	case runtime.GOOS == "darwin":
		return remedy.Command.With("open -a Docker")
	case runtime.GOOS == "windows" || strings.Contains(path, "/.docker/"):
		return "start Docker Desktop"
	case strings.HasPrefix(path, "/run/user/"):
		return remedy.Command.With("systemctl --user start docker")
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return remedy.Command.With("sudo systemctl start docker")
	}
	return remedy.Command.With("sudo service docker start")
}

// explain adds the operation to an error of the library, and returns a refusal where the user can fix it.
func (l *link) explain(doing string, err error) error {
	switch {
	case err == nil || errors.As(err, new(*backends.Refusal)):
	case strings.Contains(err.Error(), "could not select device driver"):
		return backends.Refuse("Docker has no driver for GPUs", "install the NVIDIA Container Toolkit, then: ",
			remedy.Command.With("sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"))
	case moby.IsErrConnectionFailed(err):
		return l.explainUnreachable(doing, err)
	case errdefs.IsUnauthorized(err):
		return backends.Refuse(doing+": "+client.Message(err), remedy.Command.With("docker login"))
	}
	return client.Explain(doing, err)
}

// explainUnreachable explains an engine that was reached before, or that is behind a network, and can't be reached
// now.
func (l *link) explainUnreachable(doing string, err error) error {
	if path, ok := strings.CutPrefix(l.endpoint.Host, "unix://"); ok {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		if now := probeSocket(ctx, path); now != nil {
			return refuseSocket(path, now)
		}
		return fmt.Errorf("%s: %w", doing, err) // the engine answers again
	}
	return backends.Refuse(fmt.Sprintf("%s: Docker does not answer at %s: %s", doing, l.endpoint.Host, client.Message(err)),
		"docker -H ", l.endpoint.Host, " version shows whether it can be reached from here")
}

// probeTimeout bounds the wait for a socket's answer.
const probeTimeout = 2 * time.Second
