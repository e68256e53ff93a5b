package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

func (e *docker) Create(ctx context.Context, c container.Container) (string, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return "", err
	}
	i, err := l.image(ctx, c.Image)
	if err != nil {
		return "", fmt.Errorf("create container %s: %w", c.Name, err)
	}
	id, err := l.make(ctx, client.ContainerCreateOptions{Name: c.Name, Config: config(c, i), HostConfig: l.hostConfig(c, i)})
	if errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such image") {
		l.images.Delete(c.Image)
		return "", fmt.Errorf("create container %s: %w", c.Name, container.ErrNoImage)
	}
	return id, l.explain("create container "+c.Name, err)
}

// make creates a container, if need be in two attempts, and leaves no unknown one behind: a request without an answer
// may have made a container of that name. Only a name makes that safe.
func (l *link) make(ctx context.Context, o client.ContainerCreateOptions) (string, error) {
	r, out, err := l.create(ctx, o)
	if err == nil || !isTemporary(err) && gotResponse(err) {
		return r.ID, err
	}
	if out && !gotResponse(err) {
		if o.Name == "" {
			return "", err
		}
		if gone := l.discard(ctx, o); gone != nil {
			return "", fmt.Errorf("%w; and what may be left of it could not be removed: %w", err, gone)
		}
	}
	if !isTemporary(err) || !engine.Pause(ctx, retryPause) {
		return "", err
	}
	r, out, err = l.create(ctx, o)
	if out && !gotResponse(err) && o.Name != "" {
		_ = l.discard(ctx, o) // the error that is returned is as good
	}
	return r.ID, err
}

func (l *link) create(ctx context.Context, o client.ContainerCreateOptions) (r client.ContainerCreateResult, out bool, err error) {
	out, err = sendOnce(ctx, func(ctx context.Context) (err error) {
		r, err = l.ContainerCreate(ctx, o)
		return err
	})
	return r, out, err
}

// discard removes the container that a request without an answer may have made, also after ctx has ended. A container
// with other labels is somebody else's.
func (l *link) discard(ctx context.Context, o client.ContainerCreateOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return retry(ctx, func() error {
		r, err := l.ContainerInspect(ctx, o.Name, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for key, value := range o.Config.Labels {
			if r.Container.Config == nil || r.Container.Config.Labels[key] != value {
				return nil
			}
		}
		return l.remove(ctx, r.Container.ID)
	})
}

// config is the part of a container that an image can influence: each field that an image has is set.
func config(c container.Container, i container.Image) *api.Config {
	return &api.Config{
		Image:       c.Image,
		Hostname:    c.Hostname,
		User:        c.User,
		Entrypoint:  c.Args, // with one of its own, a container does not take the image's command
		Env:         environment(c.Env, i.Env),
		Labels:      c.Labels,
		WorkingDir:  "/",
		Healthcheck: &api.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGKILL", // the image's could be one that is ignored, and hold up a daemon that stops
		AttachStdin: c.Stdin, AttachStdout: c.Stdin, AttachStderr: c.Stdin,
		OpenStdin: c.Stdin,
		StdinOnce: c.Stdin, // when who is attached goes, its input ends
	}
}

// environment is our environment, and removes the image's: the engine removes a name without a value. PATH stays, since
// it says where the image has its programs. HOSTNAME is the engine's.
func environment(ours, images []string) []string {
	set := map[string]bool{"PATH": true}
	env := append([]string(nil), ours...)
	for _, e := range ours {
		name, _, _ := strings.Cut(e, "=")
		set[name] = true
	}
	for _, e := range append([]string{"HOSTNAME"}, images...) {
		name, _, _ := strings.Cut(e, "=")
		if name != "" && !set[name] {
			set[name] = true
			env = append(env, name)
		}
	}
	return env
}

// hidden are the paths that Docker masks by default, which a list of our own replaces.
func hidden() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
}

// hostConfig is the part that only the engine decides. A field that is not set has the engine's default, which is the
// closed one.
func (l *link) hostConfig(c container.Container, i container.Image) *api.HostConfig {
	no := false
	security := []string{"no-new-privileges"}
	if c.Seccomp != "" {
		security = append(security, "seccomp="+c.Seccomp)
	}
	h := &api.HostConfig{
		AutoRemove:     true,
		NetworkMode:    "none",
		DNS:            loopback,
		DNSOptions:     []string{"timeout:1", "attempts:1"},
		DNSSearch:      []string{"."}, // none: otherwise the host's
		CapDrop:        []string{"ALL"},
		SecurityOpt:    security,
		ReadonlyRootfs: true,
		Tmpfs:          tmpfs(c, i),
		ShmSize:        c.Shm,
		Mounts:         l.mounts(c.Binds),
		IpcMode:        api.IPCModePrivate,
		LogConfig:      api.LogConfig{Type: "none"},
		Init:           &no,
		MaskedPaths:    append(hidden(), c.Masked...),
		Sysctls:        c.Sysctls,
		Resources:      l.resources(c.Resources),
	}
	if c.CgroupNS {
		h.CgroupnsMode = api.CgroupnsModePrivate
	}
	h.Ulimits = ulimits(c.Files)
	h.DeviceRequests = gpus(c.GPUs)
	return h
}
