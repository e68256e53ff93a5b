//go:build !linux

package podman

import (
	"context"
	"errors"
)

// isLocal returns false: containers need Linux, which runs in a virtual machine on this system.
func (h hostInfo) isLocal() bool { return false }

// awaitExit returns false: a container's first process is not visible on this system.
func awaitExit(context.Context, int) bool { return false }

// oomKills returns a function that returns 0.
func oomKills(int) func() int { return func() int { return 0 } }

// service is a Podman service of our own, which only Linux has: elsewhere Podman runs in a virtual machine.
type service struct{}

func (e *Engine) startService(context.Context, []string) (*service, error) {
	return nil, errors.ErrUnsupported
}

func (s *service) endpoint() endpoint { return endpoint{} }
func (s *service) alive() bool        { return false }
func (s *service) stop()              {}

func hybridCgroups() bool { return false }
