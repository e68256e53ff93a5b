//go:build !linux

package call

import (
	"errors"
	"net"
	"os"
)

// SendFiles is not supported: on this system no container shares our sockets.
func SendFiles(*net.UnixConn, ...*os.File) error { return errors.ErrUnsupported }

// ReceiveFiles is not supported.
func ReceiveFiles(*net.UnixConn, int) ([]*os.File, error) { return nil, errors.ErrUnsupported }
