package call

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Local is a connection between processes of one host: descriptors travel beside its bytes, on a connection of their
// own.
type Local struct {
	*net.UnixConn
	files *net.UnixConn
}

// LocalConns is how many connections a Local has.
const LocalConns = 2

// NewLocal returns a connection over two, which it owns.
func NewLocal(conns []*net.UnixConn) *Local { return &Local{conns[0], conns[1]} }

// Close implements [io.Closer].
func (l *Local) Close() error { return errors.Join(l.UnixConn.Close(), l.files.Close()) }

// sendSockets hands a sandbox's sockets over. A socket stays in the network namespace where it was made, whoever holds
// it.
func (l *Local) sendSockets(g backends.Sockets) error {
	files, err := g.Files()
	if err == nil {
		err = SendFiles(l.files, files...)
	}
	backends.CloseAll(files)
	return err
}

// takeSockets returns the sockets of a sandbox, which the init has sent before it answered. No more descriptors are
// taken: unread, they would count as the server's.
func (l *Local) takeSockets(spec backends.Spec) (backends.Sockets, error) {
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

// OpenConns returns the connections that files are. The caller closes the files.
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
