package call

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Local is a connection between processes of one host: descriptors travel on a second connection.
type Local struct {
	*net.UnixConn
	files *net.UnixConn
}

// LocalConns is the number of connections of a Local.
const LocalConns = 2

// NewLocal returns a Local over two connections, which it owns.
func NewLocal(conns []*net.UnixConn) *Local { return &Local{conns[0], conns[1]} }

// Close implements [io.Closer].
func (l *Local) Close() error { return errors.Join(l.UnixConn.Close(), l.files.Close()) }

// sendSockets sends a sandbox's sockets. A socket stays in the network namespace where it was made, whichever process
// holds it.
func (l *Local) sendSockets(g backends.Sockets) error {
	files, err := g.Files()
	if err == nil {
		err = SendFiles(l.files, files...)
	}
	backends.CloseAll(files)
	return err
}

// receiveSockets receives a sandbox's sockets, which the init sends before its answer. It reads no other
// descriptors: unread ones do not count against the server's limit.
func (l *Local) receiveSockets(spec backends.Spec) (backends.Sockets, error) {
	defer l.files.Close()
	if !spec.Resolves() {
		return backends.Sockets{}, nil
	}
	_ = l.files.SetReadDeadline(time.Now().Add(time.Second))
	files, err := ReceiveFiles(l.files, 2+len(spec.Gateway))
	if err != nil {
		return backends.Sockets{}, err
	}
	return backends.OpenSockets(files)
}

// ReceiveConns receives n connections over a Unix socket.
func ReceiveConns(over *net.UnixConn, n int) ([]*net.UnixConn, error) {
	files, err := ReceiveFiles(over, n)
	if err != nil {
		return nil, err
	}
	defer backends.CloseAll(files)
	return OpenConns(files)
}

// OpenConns converts files to connections. The caller closes the files.
func OpenConns(files []*os.File) (all []*net.UnixConn, err error) {
	for _, f := range files {
		c, err := net.FileConn(f)
		u, ok := c.(*net.UnixConn)
		if err == nil && !ok {
			c.Close()
			err = fmt.Errorf("a connection of kind %T", c)
		}
		if err != nil {
			backends.CloseAll(all)
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}
