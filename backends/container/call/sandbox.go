package call

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// sandbox is the server's end of a sandbox that runs in the init.
type sandbox struct {
	conn     *Conn
	wall     time.Duration
	gateway  backends.Sockets
	commands atomic.Uint64 // the number of the last command
	proposed bool          // Files lists the workspace's changes

	mu      sync.Mutex
	closing bool
	running int // commands
	using   sync.WaitGroup
}

// defaultInitTimeout bounds the time that the init has to end a command.
const defaultInitTimeout = 30 * time.Second

// Gateway implements [backends.Sandbox].
func (s *sandbox) Gateway() backends.Sockets { return s.gateway }

// Files implements [backends.Sandbox].
func (s *sandbox) Files() backends.Files { return files{s.conn, s.proposed} }

// Usage implements [backends.Sandbox].
func (s *sandbox) Usage() backends.Usage {
	m, err := s.conn.roundTrip(context.Background(), request{Op: opUsage}, ioTimeout)
	if err != nil || m.Usage == nil {
		return backends.Usage{}
	}
	u := *m.Usage
	return backends.Usage{CPU: max(u.CPU, 0), Memory: max(u.Memory, 0), Disk: max(u.Disk, 0), Processes: max(u.Processes, 0),
		Lost: max(u.Lost, 0)}
}

// Sample implements [backends.Sandbox].
func (s *sandbox) Sample(bool) func() backends.Usage {
	found := make(chan backends.Usage, 1)
	go func() { found <- s.Usage() }()
	return func() backends.Usage { return <-found }
}

// Limit implements [backends.Sandbox].
func (s *sandbox) Limit(l backends.Limits) (backends.Limits, error) {
	m, err := s.conn.roundTrip(context.Background(), request{Op: opLimit, Limit: &l}, ioTimeout)
	if err != nil {
		var zero backends.Limits
		if m.Limits != nil {
			zero = *m.Limits
		}
		return zero, err
	}
	if m.Limits == nil || m.Limits.RAM <= 0 || m.Limits.Wall <= 0 || m.Limits.CPU <= 0 || m.Limits.Processes <= 0 || m.Limits.Disk <= 0 {
		return backends.Limits{}, s.conn.protocolError("no limits")
	}
	return *m.Limits, nil
}

// keepOpen keeps the sandbox open until the returned function is called.
func (s *sandbox) keepOpen() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errors.New("the sandbox is closed")
	}
	s.running++
	s.using.Add(1)
	return func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
		s.using.Done()
	}, nil
}

// closeTimeout bounds the wait for running commands when the sandbox is closed.
const closeTimeout = 5 * time.Second

// Close implements [backends.Sandbox].
func (s *sandbox) Close() error {
	s.mu.Lock()
	first, running := !s.closing, s.running
	s.closing = true
	s.mu.Unlock()
	if first && running > 0 {
		s.closeRemote()
	}
	err := s.conn.Close()
	s.gateway.Close()
	return err
}

// closeRemote closes the sandbox in the init, so that the results of running commands still arrive.
func (s *sandbox) closeRemote() {
	late := time.After(closeTimeout)
	ended := make(chan struct{})
	go func() {
		s.conn.roundTrip(context.Background(), request{Op: opClose}, unlimited)
		s.using.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-late:
	case <-s.conn.Done():
	}
}
