//go:build !linux

package control

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
)

type socket struct{ listener net.Listener }

func (s *socket) remove() {}

func listen(string, int) (*socket, error) { return nil, errors.ErrUnsupported }

func isFree(string, string) (bool, error) { return false, errors.ErrUnsupported }

func checkPrivate(dir string) error {
	_, err := os.Stat(dir)
	return err
}

func lock(string) (func(), error) { return nil, errors.ErrUnsupported }

func dial(ctx context.Context, dir, name string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", filepath.Join(dir, name+socketSuffix))
}

func peer(net.Conn) (int, error) { return -1, errors.ErrUnsupported }

func isAllowedUser(int) bool { return false }
