//go:build !linux

package call

import (
	"errors"
	"io"
	"net"
)

// unixConn reports that no descriptors can be sent: here no container shares our sockets.
func unixConn(io.ReadWriteCloser) (*net.UnixConn, bool) { return nil, false }

func sendSocket(*net.UnixConn, socket) error { return errors.ErrUnsupported }

func (c *Conn) receiveSockets(built) ([]socket, error) {
	return nil, errors.New("its init hands descriptors over, which this system can't take")
}
