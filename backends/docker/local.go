package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	moby "github.com/moby/moby/client"
)

// isLocal reports whether our files and sockets can be mounted into containers. All of these must hold:
//
//   - The engine is reached over a Unix socket. But ssh may forward that, or it may lead into the virtual machine of
//     Docker Desktop.
//   - The engine has our kernel release and host name. A virtual machine differs, a clone may not.
//   - The engine sees a file that we have just made in dir. A container with the host's socket, a daemon with a
//     private /tmp and a forwarded socket fail here. Docker Desktop may pass, as it shares files with its machine
//     (where sockets among them are dead): hence the kernel check.
//   - The engine's runtime starts processes of that same kernel: not gVisor or Kata.
//
// An engine in doubt is not local, since attached streams always work.
func (l *link) isLocal(ctx context.Context, dir string) (bool, error) {
	name, err := os.Hostname()
	kernel := kernelRelease()
	if err != nil || kernel == "" || kernel != l.info.KernelVersion || name != l.info.Name ||
		!strings.HasPrefix(l.endpoint.Host, "unix://") || !l.sameKernel() {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	removeStale(dir)
	f, err := os.CreateTemp(dir, markerPrefix+"*")
	if err != nil {
		return false, err
	}
	f.Close()
	defer os.Remove(f.Name())
	if there, err := l.seesPath(ctx, f.Name()); !there || err != nil {
		return false, err
	}
	// The engine must not see a file that does not exist, else its answers mean nothing.
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	there, err := l.seesPath(ctx, f.Name())
	return !there && err == nil, err
}

// markerPrefix begins the names of the files that isLocal asks engines about. Each exists for milliseconds.
const markerPrefix = "sandboxmcp-here-"

// markerLifetime is the age at which a marker counts as left by a killed process. An engine that answers later is
// taken as not local.
const markerLifetime = 10 * time.Second

// removeStale removes the markers of killed processes.
func removeStale(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, markerPrefix+"*"))
	for _, file := range files {
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > markerLifetime {
			os.Remove(file)
		}
	}
}

// sameKernel reports whether the default runtime is known to share the engine's kernel. Operators name runtimes
// freely; an unknown runtime counts as not sharing it.
func (l *link) sameKernel() bool {
	name := l.info.DefaultRuntime
	if r, ok := l.info.Runtimes[l.info.DefaultRuntime]; ok && r.Path != "" {
		name = path.Base(r.Path)
	}
	return slices.Contains([]string{"runc", "crun", "youki", "nvidia", "nvidia-container-runtime", "io.containerd.runc.v2"}, name)
}

// seesPath reports whether the engine sees a path. It asks for a container that mounts the path, from an image that
// can't exist. The engine reports a missing path first, so nothing is made.
func (l *link) seesPath(ctx context.Context, file string) (bool, error) {
	made, err := l.api.ContainerCreate(ctx, moby.ContainerCreateOptions{
		Config: &container.Config{Image: "sha256:" + strings.Repeat("0", 64), Cmd: []string{"/"}},
		HostConfig: &container.HostConfig{
			NetworkMode: "none",
			Mounts:      []mount.Mount{{Type: mount.TypeBind, Source: file, Target: file, ReadOnly: true}},
		},
	})
	switch {
	case err == nil: // an engine that has an image with an all-zero hash can't be trusted
		_, err = l.api.ContainerRemove(ctx, made.ID, moby.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return false, err
	case errdefs.IsNotFound(err):
		return true, nil
	case errdefs.IsInvalidArgument(err):
		return false, nil
	}
	return false, err
}
