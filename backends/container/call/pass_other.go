//go:build !linux

package call

import (
	"errors"
	"io"
	"net"
)

// passes says whether descriptors can be sent over a connection: here no container shares our sockets.
func passes(io.ReadWriteCloser) (*net.UnixConn, bool) { return nil, false }

func pass(*net.UnixConn, socket) error { return errors.ErrUnsupported }

func (l *Line) receive(built) ([]socket, error) {
	return nil, errors.New("its init hands descriptors over, which this system can't take")
}
