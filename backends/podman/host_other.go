//go:build !linux

package podman

import (
	"context"
	"errors"
)

// isLocal is always false: containers need Linux, which then is a virtual machine.
func (h hostInfo) isLocal() bool { return false }

// awaitExit sees no container's first process from here.
func awaitExit(context.Context, int) bool { return false }

// oomKills counts nothing.
func oomKills(int) func() int { return func() int { return 0 } }

// service is a Podman service of our own, which only Linux can have: elsewhere it runs in a virtual machine.
type service struct{}

func (e *Engine) serve(context.Context, []string) (*service, error) {
	return nil, errors.ErrUnsupported
}

func (s *service) endpoint() endpoint { return endpoint{} }
func (s *service) alive() bool        { return false }
func (s *service) stop()              {}

func hybridCgroups() bool { return false }
