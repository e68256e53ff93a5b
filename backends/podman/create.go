package podman

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// Create implements [container.Engine]. Where c does not bind /etc/resolv.conf and /etc/hosts, they are made in the
// container, and name nothing but itself.
func (e *Engine) Create(ctx context.Context, c container.Container) (string, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return "", err
	}
	s, err := specFor(c, l.facts)
	if err != nil {
		return "", err
	}
	if c.Seccomp != "" && l.facts.Local {
		if s.Seccomp, err = e.profile(c.Seccomp); err != nil {
			return "", fmt.Errorf("write a seccomp profile: %w", err)
		}
	}
	id, err := e.create(ctx, s)
	if err != nil {
		e.forgetInfo()
		return "", fmt.Errorf("make a container: %w", noGPU(err, c.GPUs))
	}
	if err := e.finish(ctx, id, c, s); err != nil {
		e.discard(id)
		return "", err
	}
	e.own.add(id)
	return id, nil
}

// create makes the container, once more if the connection failed: a container of the first attempt is removed before.
func (e *Engine) create(ctx context.Context, s spec) (string, error) {
	var made struct{ ID string }
	r := request{method: http.MethodPost, path: "/containers/create", json: s}
	err := e.call(ctx, r, &made)
	if transient(ctx, err) && s.Name != "" {
		if err := e.Remove(ctx, s.Name); err != nil {
			return "", err
		}
		err = e.call(ctx, r, &made)
	}
	return made.ID, err
}

// finish checks the container, and adds the parts that can only be added then.
func (e *Engine) finish(ctx context.Context, id string, c container.Container, s spec) error {
	var is inspected
	if err := e.call(ctx, inspect(id), &is); err != nil {
		return fmt.Errorf("inspect a container: %w", err)
	}
	if err := refuseExtra(is, s); err != nil {
		return err
	}
	if err := e.putNames(ctx, id, c); err != nil {
		return err
	}
	if len(c.GPUs) == 0 {
		return nil
	}
	// Most versions look devices up when the runtime gets the container: here the reason is still known.
	err := e.call(ctx, request{method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/init"}, nil)
	return noGPU(err, c.GPUs)
}

// noGPU makes a refusal of Podman's errors about devices that it does not have.
func noGPU(err error, gpus []string) error {
	if err == nil || len(gpus) == 0 || !strings.Contains(err.Error(), "CDI") && !strings.Contains(err.Error(), gpuKind) {
		return err
	}
	return &backends.Refusal{
		Reason: fmt.Sprintf("podman has no GPU %s: %v", strings.Join(gpus, ","), err),
		Remedy: "install the NVIDIA container toolkit, then: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
	}
}

// discard removes a container that failed, also if the caller has given up.
func (e *Engine) discard(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e.Remove(ctx, id)
}

// refuseExtra refuses a container that has more than we asked for: containers.conf can add mounts and devices to each,
// and no request can say that we want none.
func refuseExtra(is inspected, s spec) error {
	var more []string
	for _, m := range is.Mounts {
		asked := slices.ContainsFunc(s.Mounts, func(a mount) bool { return path.Clean(a.Destination) == m.Destination }) ||
			slices.ContainsFunc(s.Volumes, func(a volume) bool { return path.Clean(a.Dest) == m.Destination })
		if !asked {
			more = append(more, m.Destination)
		}
	}
	if len(s.Devices) == 0 {
		for _, d := range is.HostConfig.Devices {
			more = append(more, d.PathInContainer)
		}
	}
	if len(more) == 0 {
		return nil
	}
	return &backends.Refusal{
		Reason: "Podman's configuration shows " + strings.Join(more, ", ") + " in every container",
		Remedy: "take volumes and devices out of containers.conf",
	}
}
