//go:build !linux

package door

import (
	"context"
	"errors"
	"net"
)

// listenUnix needs Linux, where the mode of a socket can be set before others connect.
func listenUnix(context.Context, string, string) (net.Listener, func(), error) {
	return nil, nil, errors.ErrUnsupported
}
