package container

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// runDir is the host directory of one container: a socket, and files that its init could not write in a read-only
// root directory. Its files are readable by everybody; the parent directories restrict access.
type runDir struct {
	path     string
	visible  []string          // paths of the files that show limits
	listener *net.UnixListener // until the init has connected
}

// trustName is the file mounted as backends.TrustFile.
const trustName = "trust.pem"

// newRunDir makes the directory of a container whose programs run as user, with files that show its limits, and
// starts to listen in it.
func newRunDir(i *serverLock, user identity, spec backends.Spec, visible map[string]string) (*runDir, error) {
	f := &runDir{visible: slices.Sorted(maps.Keys(visible)), path: filepath.Join(i.runs, i.name, strconv.FormatInt(i.dirs.Add(1), 36))}
	if err := os.MkdirAll(filepath.Join(f.path, "conn"), 0o711); err != nil {
		return nil, fmt.Errorf("make the directory of a container: %w", err)
	}
	err := f.setUp(user, spec)
	if err == nil {
		err = f.writeVisible(visible)
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

func (d *runDir) setUp(user identity, spec backends.Spec) error {
	for dir := range 3 { // independent of our umask
		up := d.path
		for range dir {
			up = filepath.Dir(up)
		}
		if err := os.Chmod(up, 0o711); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(d.path, "conn"), 0o711); err != nil {
		return err
	}
	files := spec.EtcFiles(user.uid, user.gid)
	if len(spec.Trust) > 0 {
		files[trustName] = string(backends.TrustedWith(spec.Trust))
	}
	for name, content := range files {
		path := filepath.Join(d.path, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
	}
	return d.listen()
}

// binds returns the mounts of the directory.
func (d *runDir) binds(trust bool) []Bind {
	list := []Bind{{Host: filepath.Join(d.path, "conn"), Inside: filepath.Dir(SocketPath)}}
	for _, name := range slices.Sorted(maps.Keys(backends.Spec{}.EtcFiles(0, 0))) {
		list = append(list, Bind{Host: filepath.Join(d.path, name), Inside: "/etc/" + name})
	}
	for _, at := range d.visible {
		list = append(list, Bind{Host: d.visibleFile(at), Inside: at})
	}
	if trust {
		for _, at := range append([]string{backends.TrustFile}, backends.Bundles...) {
			list = append(list, Bind{Host: filepath.Join(d.path, trustName), Inside: at})
		}
	}
	return list
}

// listen makes the socket. The kernel shows the name under which it was bound to the container in /proc/net/unix:
// so the name reveals nothing about this host, and is never too long (unix(7)).
func (d *runDir) listen() error {
	dir := filepath.Join(d.path, "conn")
	name := filepath.Join(dir, "socket")
	if runtime.GOOS == "linux" {
		open, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer open.Close()
		name = fmt.Sprintf("/proc/self/fd/%d/socket", open.Fd())
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen for a container: %w", err)
	}
	l.SetUnlinkOnClose(false) // its name may mean another directory by then
	d.listener = l
	return os.Chmod(filepath.Join(dir, "socket"), 0o666)
}

// accept waits for the init until the deadline, and refuses all later connections.
func (d *runDir) accept(deadline time.Time) (*net.UnixConn, error) {
	if err := d.listener.SetDeadline(deadline); err != nil {
		return nil, err
	}
	conn, err := d.listener.AcceptUnix()
	d.listener.Close()
	os.Remove(filepath.Join(d.path, "conn", "socket"))
	return conn, err
}

// remove removes the directory from the host.
func (d *runDir) remove() error {
	if d == nil {
		return nil
	}
	if d.listener != nil {
		d.listener.Close()
	}
	if err := os.RemoveAll(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the directory of a container: %w", err)
	}
	return nil
}
