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

// folder is what one container sees of us: a socket, and files that its init could not make in a root folder
// that is read-only. Its own files are there to be read by everybody; who may come near is for the folders
// above to say.
type folder struct {
	path     string
	listener *net.UnixListener // until the init has connected
}

// trustName is what a container sees as backends.TrustFile.
const trustName = "trust.pem"

// newFolder makes one for a container whose programs are user, and listens there.
func newFolder(i *instance, user identity, trust []byte) (*folder, error) {
	f := &folder{path: filepath.Join(i.runs, i.name, strconv.FormatInt(i.folders.Add(1), 36))}
	if err := os.MkdirAll(filepath.Join(f.path, "line"), 0o711); err != nil {
		return nil, fmt.Errorf("make the folder of a container: %w", err)
	}
	if err := f.furnish(user, trust); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

func (f *folder) furnish(user identity, trust []byte) error {
	for dir := range 3 { // whatever our umask is
		up := f.path
		for range dir {
			up = filepath.Dir(up)
		}
		if err := os.Chmod(up, 0o711); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(f.path, "line"), 0o711); err != nil {
		return err
	}
	files := backends.Etc(user.uid, user.gid)
	if len(trust) > 0 {
		files[trustName] = string(backends.Trusted(trust))
	}
	for name, content := range files {
		path := filepath.Join(f.path, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
	}
	return f.listen()
}

// binds are how the container sees the folder.
func (f *folder) binds(trust bool) []Bind {
	list := []Bind{{Host: filepath.Join(f.path, "line"), Inside: filepath.Dir(SocketPath)}}
	for _, name := range slices.Sorted(maps.Keys(backends.Etc(0, 0))) {
		list = append(list, Bind{Host: filepath.Join(f.path, name), Inside: "/etc/" + name})
	}
	if trust {
		for _, at := range append([]string{backends.TrustFile}, backends.Bundles...) {
			list = append(list, Bind{Host: filepath.Join(f.path, trustName), Inside: at})
		}
	}
	return list
}

// listen makes the socket. The kernel remembers by which name that was, and shows it to the container in
// /proc/net/unix: so it is a name that says nothing about this host, and one that is never too long (unix(7)).
func (f *folder) listen() error {
	dir := filepath.Join(f.path, "line")
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
	l.SetUnlinkOnClose(false) // under a name that may mean another folder by then
	f.listener = l
	return os.Chmod(filepath.Join(dir, "socket"), 0o666)
}

// accept waits for the init, until the deadline, and lets nobody else come after it.
func (f *folder) accept(deadline time.Time) (*net.UnixConn, error) {
	if err := f.listener.SetDeadline(deadline); err != nil {
		return nil, err
	}
	conn, err := f.listener.AcceptUnix()
	f.shut()
	return conn, err
}

// shut stops listening.
func (f *folder) shut() {
	f.listener.Close()
	os.Remove(filepath.Join(f.path, "line", "socket"))
}

// remove takes all of it from the host.
func (f *folder) remove() error {
	if f == nil {
		return nil
	}
	if f.listener != nil {
		f.listener.Close()
	}
	if err := os.RemoveAll(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the folder of a container: %w", err)
	}
	return nil
}
