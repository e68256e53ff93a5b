package container

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
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

// folders counts those of this process: a name is used once.
var folders atomic.Int64

// bundles are where images keep the certificates that programs trust, all in one file; and hosts, too.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem", "/etc/pki/tls/cert.pem",
}

// newFolder makes one for a container whose programs are user, and listens there.
func newFolder(i *instance, user identity, trust []byte) (*folder, error) {
	f := &folder{path: filepath.Join(i.runs, i.name, strconv.FormatInt(folders.Add(1), 36))}
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
	for name, content := range files(user, trust) {
		path := filepath.Join(f.path, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
	}
	return f.listen()
}

// files are those that a hardened process sees likewise.
func files(user identity, trust []byte) map[string][]byte {
	all := map[string][]byte{
		"passwd": fmt.Appendf(nil, "root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:%d:%d:sandbox:/workspace:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
			user.uid, user.gid),
		"group":       fmt.Appendf(nil, "root:x:0:\nsandbox:x:%d:\nnogroup:x:65534:\n", user.gid),
		"hosts":       []byte("127.0.0.1 localhost sandbox\n::1 localhost\n"),
		"resolv.conf": []byte("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
	}
	if len(trust) > 0 {
		all["trust.pem"] = append(hostBundle(), trust...)
	}
	return all
}

// hostBundle is what the host trusts.
func hostBundle() []byte {
	for _, name := range bundles {
		if content, err := os.ReadFile(name); err == nil && len(content) > 0 {
			if !bytes.HasSuffix(content, []byte("\n")) {
				content = append(content, '\n')
			}
			return content
		}
	}
	return nil
}

// binds are how the container sees the folder.
func (f *folder) binds(trust bool) []Bind {
	list := []Bind{{Host: filepath.Join(f.path, "line"), Inside: filepath.Dir(SocketPath)}}
	for _, name := range []string{"passwd", "group", "hosts", "resolv.conf"} {
		list = append(list, Bind{Host: filepath.Join(f.path, name), Inside: "/etc/" + name})
	}
	if trust {
		for _, at := range append([]string{backends.TrustFile}, bundles...) {
			list = append(list, Bind{Host: filepath.Join(f.path, "trust.pem"), Inside: at})
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
