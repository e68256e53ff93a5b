//go:build !linux

package podman

import (
	"context"
	"errors"
)

// service is a Podman service of our own, which only Linux can have: elsewhere it runs in a virtual machine.
type service struct{}

func (e *Engine) serve(context.Context, []string) (*service, error) {
	return nil, errors.ErrUnsupported
}

func (s *service) endpoint() endpoint { return endpoint{} }
func (s *service) alive() bool        { return false }
func (s *service) end()               {}

func hybridCgroups() bool { return false }
