package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	docker "github.com/moby/moby/api/types/container"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Create implements [container.Engine]. If c does not bind /etc/resolv.conf and /etc/hosts, it writes them into the
// container, with no name but the container's own.
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
		if s.Seccomp, err = e.profileFile(c.Seccomp); err != nil {
			return "", fmt.Errorf("write a seccomp profile: %w", err)
		}
	}
	id, err := e.create(ctx, s)
	if err != nil {
		e.forgetInfo()
		return "", e.explain("create container "+c.Name, gpuError(err, c.GPUs))
	}
	if err := e.completeContainer(ctx, id, c, s); err != nil {
		e.discard(id)
		return "", err
	}
	return id, nil
}

func (e *Engine) create(ctx context.Context, s spec) (string, error) {
	var made struct{ ID string }
	err := e.call(ctx, request{method: http.MethodPost, path: "/containers/create", json: s}, &made)
	return made.ID, err
}

// completeContainer checks the container, and adds the parts that can only be added to an existing one.
func (e *Engine) completeContainer(ctx context.Context, id string, c container.Container, s spec) error {
	is, err := e.Inspect(ctx, id)
	if err != nil {
		return e.explain("inspect container "+c.Name, err)
	}
	if err := refuseExtra(is.Container, s); err != nil {
		return err
	}
	if err := e.putNames(ctx, id, c); err != nil {
		return err
	}
	if len(c.GPUs) == 0 {
		return nil
	}
	// Most versions look devices up when the runtime gets the container; only here the reason is known.
	err = e.call(ctx, request{method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/init"}, nil)
	return gpuError(err, c.GPUs)
}

// gpuError converts Podman's errors about missing devices to a refusal.
func gpuError(err error, gpus []string) error {
	if err == nil || len(gpus) == 0 || !strings.Contains(err.Error(), "CDI") && !strings.Contains(err.Error(), gpuKind) {
		return err
	}
	return backends.Refuse(fmt.Sprintf("podman has no GPU %s: %v", strings.Join(gpus, ","), err),
		"install the NVIDIA container toolkit, then: ", remedy.Command.With("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"))
}

// discard removes a failed container, even after the caller's context has ended.
func (e *Engine) discard(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	e.Remove(ctx, id)
}

// Remove implements [container.Engine].
func (e *Engine) Remove(ctx context.Context, id string) error {
	e.awaitNotice(ctx, id)
	return e.Client.Remove(ctx, id)
}

// awaitNotice waits briefly until Podman has noticed the end of a container, whose init, if it is ours, has already
// been told to end. Otherwise Podman would have its runtime kill the container, and find out why that failed.
func (e *Engine) awaitNotice(ctx context.Context, id string) {
	for begun := time.Now(); time.Since(begun) < time.Second/4 && engine.Pause(ctx, 2*time.Millisecond); {
		is, err := e.Inspect(ctx, id)
		if err != nil || !begunState(is.Container.State) || endedState(is.Container.State) {
			return
		}
	}
}

// refuseExtra refuses a container that has more than we requested: containers.conf can add mounts and devices to
// each, and no request can exclude them.
func refuseExtra(is docker.InspectResponse, s spec) error {
	var more []string
	for _, m := range is.Mounts {
		asked := slices.ContainsFunc(s.Mounts, func(a specs.Mount) bool { return path.Clean(a.Destination) == m.Destination }) ||
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
	return backends.Refuse("Podman's configuration shows "+strings.Join(more, ", ")+" in every container",
		"take volumes and devices out of containers.conf")
}

// Start implements [container.Engine].
func (e *Engine) Start(ctx context.Context, id string) error {
	err := e.Client.Start(ctx, id)
	if err != nil {
		e.forgetInfo()
	}
	return err
}

// Update implements [container.Engine]. Docker's API supports it only with Podman 5.
func (e *Engine) Update(ctx context.Context, id string, r container.Resources) error {
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
	limits := l.facts.resources(r)
	if limits == nil {
		if r == (container.Resources{}) {
			return nil
		}
		return fmt.Errorf("change a container's limits: %w: this Podman can't limit any", errors.ErrUnsupported)
	}
	err = e.call(ctx, request{method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/update", json: limits, again: true}, nil)
	if errdefs.IsNotFound(err) {
		err = fmt.Errorf("%w; Podman before 4.3 can change none", err)
	}
	return e.explain("change the limits of container "+id, err)
}

// nameFiles are the files that configure name resolution: by our own init, or none.
var nameFiles = []struct{ path, text string }{
	{"etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
	{"etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
}

// putNames writes the unbound ones of nameFiles into a container that is not running: its root directory is
// read-only only for the container itself. Podman would make its own from the host's.
func (e *Engine) putNames(ctx context.Context, id string, c container.Container) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	any := false
	for _, n := range nameFiles {
		if slices.ContainsFunc(c.Binds, func(b container.Bind) bool { return path.Clean(b.Inside) == "/"+n.path }) {
			continue
		}
		any = true
		w.WriteHeader(&tar.Header{Name: n.path, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(n.text))})
		w.Write([]byte(n.text))
	}
	if err := w.Close(); err != nil || !any {
		return err
	}
	return e.explain("write resolv.conf and hosts into container "+c.Name, e.Unpack(ctx, id, "/", &archive))
}

// Seed implements [container.Engine]. The volume's name should contain the hash of the archive.
func (e *Engine) Seed(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string) error {
	return e.FillVolume(ctx, volume, labels, archive, image, e.Create)
}
