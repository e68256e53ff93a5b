//go:build !linux

package podman

import (
	"context"
	"errors"
	"os"
)

// isLocal is always false: containers need Linux, which then is a virtual machine.
func (h hostInfo) isLocal() bool { return false }

// openPidfd would open a container's first process, which can't be seen from here.
func openPidfd(int) *os.File { return nil }

// watchExit would report its end.
func watchExit(*os.File) (died <-chan bool, stop func()) { return nil, func() {} }

// killProcess would end it.
func killProcess(*os.File) bool { return false }

// oomKills would count what the kernel killed.
func oomKills(int) func() int { return func() int { return 0 } }

// service is a Podman service of our own, which only Linux can have: elsewhere it runs in a virtual machine.
type service struct{}

func (e *Engine) serve(context.Context, []string) (*service, error) {
	return nil, errors.ErrUnsupported
}

func (s *service) endpoint() endpoint { return endpoint{} }
func (s *service) alive() bool        { return false }
func (s *service) end()               {}

func hybridCgroups() bool { return false }
