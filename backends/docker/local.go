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

// isLocal reports whether files and sockets of ours can be mounted into containers. All of it must hold:
//
//   - The engine is reached over a Unix socket. But that may be forwarded by ssh, or lead into the
//     virtual machine of Docker Desktop.
//   - It has the kernel and the host name that we have. A virtual machine has not, a clone may.
//   - It sees a file that we have just made in dir. A container that was given the host's socket, a
//     daemon with a /tmp of its own, and a forwarded socket do not pass. Docker Desktop might, as it
//     passes files on to its machine (where sockets among them are dead): hence the kernel.
//   - Its runtime is one that starts processes of that same kernel: not gVisor or Kata.
//
// Whatever is in doubt is not local, for attached streams always work.
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
	// And it must not see one that is not there, or else its answers mean nothing.
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	there, err := l.seesPath(ctx, f.Name())
	return !there && err == nil, err
}

// markerPrefix begins the names of the files that engines are asked about. Each exists for milliseconds.
const markerPrefix = "sandboxmcp-here-"

// markerLifetime is the age from which such a file is one that a killed process left. An engine that answers later than
// that is taken not to see our files, as whenever there is a doubt.
const markerLifetime = 10 * time.Second

// removeStale removes the files of killed processes.
func removeStale(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, markerPrefix+"*"))
	for _, file := range files {
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > markerLifetime {
			os.Remove(file)
		}
	}
}

// sameKernel reports whether the default runtime is one of those that share the engine's kernel. An operator may name
// one freely; an unknown runtime counts as one that does not.
func (l *link) sameKernel() bool {
	name := l.info.DefaultRuntime
	if r, ok := l.info.Runtimes[l.info.DefaultRuntime]; ok && r.Path != "" {
		name = path.Base(r.Path)
	}
	return slices.Contains([]string{"runc", "crun", "youki", "nvidia", "nvidia-container-runtime", "io.containerd.runc.v2"}, name)
}

// seesPath reports whether the engine sees a path: it is asked to make a container that mounts the path, from an image that
// can't exist. The engine reports a missing path first, and so nothing is made.
func (l *link) seesPath(ctx context.Context, file string) (bool, error) {
	made, err := l.api.ContainerCreate(ctx, moby.ContainerCreateOptions{
		Config: &container.Config{Image: "sha256:" + strings.Repeat("0", 64), Cmd: []string{"/"}},
		HostConfig: &container.HostConfig{
			NetworkMode: "none",
			Mounts:      []mount.Mount{{Type: mount.TypeBind, Source: file, Target: file, ReadOnly: true}},
		},
	})
	switch {
	case err == nil: // an image that hashes to nothing but zeros: it is not to be trusted further
		_, err = l.api.ContainerRemove(ctx, made.ID, moby.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return false, err
	case errdefs.IsNotFound(err):
		return true, nil
	case errdefs.IsInvalidArgument(err):
		return false, nil
	}
	return false, err
}
