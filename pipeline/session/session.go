package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Session is one sandbox with its interpreters, or with none. Its methods may be called concurrently.
type Session struct {
	interpreter // the default one; it has no kernel if Language is ""
	manager     *Manager
	build       func(context.Context) (backends.Sandbox, error)
	plan        Plan

	line []*sessionTicket // guarded by the manager's lines

	began time.Time // has a monotonic reading, which the times of info lack

	mu      sync.Mutex
	sandbox backends.Sandbox
	info    Info
	used    time.Time               // time of the last use, with a monotonic reading
	more    map[string]*interpreter // additional ones, by id
	users   int                     // number of users that keep it from being idle
	using   sync.WaitGroup          // the same users
	dead    chan struct{}
	guests  guests
	pausing atomic.Bool
	cells   map[string]string // NAME -> VALUE of the environment of cells
	seen    map[FileID]SeenFile
}

// FileID is the hash of a file's name. A program can create a quarter of a million names of 4 KiB each, too many
// bytes to remember.
type FileID [16]byte

// IDOf returns the FileID of a name in the workspace.
func IDOf(name string) FileID {
	sum := sha256.Sum256([]byte(name))
	return FileID(sum[:16])
}

// SeenFile describes a file of the workspace after the previous cell.
type SeenFile struct {
	Size    int64
	Changed time.Time
}

// ErrDead is returned for a session that has ended. The text says why.
var ErrDead = errors.New("the session has ended")

// Acquire waits for its turn in the session's queue (see [Ticket]), and locks the first interpreter. If the
// interpreter was lost, Acquire starts a new one. Release unlocks it.
func (s *Session) Acquire(ctx context.Context) (*Guard, error) {
	if s.Language == "" {
		return nil, ErrBare
	}
	leave, err := s.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return s.acquire(ctx, &s.interpreter, leave)
}

// acquire locks an interpreter. It calls leave when the interpreter is unlocked, or can't be locked.
func (s *Session) acquire(ctx context.Context, in *interpreter, leave func()) (*Guard, error) {
	var err error
	select {
	case <-in.sem:
	case <-in.gone:
		err = fmt.Errorf("%w: %.40q", ErrNoContext, in.ID)
	case <-s.dead:
		err = s.endedError()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		leave()
		return nil, err
	}
	if err := s.addUser(); err != nil {
		in.sem <- struct{}{}
		leave()
		return nil, err
	}
	c := &Guard{Session: s, in: in, line: leave}
	if err := c.ready(ctx); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

func (s *Session) endedError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%w: %s", ErrDead, reasons[s.info.Ended])
}

// EndedError returns an error that says why the session has ended, nil while it lives.
func (s *Session) EndedError() error {
	if s.Info().State != "dead" {
		return nil
	}
	return s.endedError()
}

// Reason describes why a session ended, by the Ended field of its Info.
func Reason(ended string) string { return cmp.Or(reasons[ended], "for a reason that is not recorded") }

// reasons describe why a session ended.
var reasons = map[string]string{
	"closed":   "it was closed",
	"idle":     "it was idle for too long",
	"lifetime": "its lifetime was over",
	"paused":   "it was paused; its files are kept",
	"failed":   "its interpreter could not be started again",
	"server":   "the server is shutting down",
	"crash":    "the server was killed",
}

// addUser counts another user of the session, until removeUser.
func (s *Session) addUser() error {
	s.mu.Lock()
	dead := s.info.State == "dead"
	if !dead {
		s.users++
		s.using.Add(1)
		s.info.State = "busy"
		s.touch()
	}
	s.mu.Unlock()
	if dead {
		return s.endedError()
	}
	return nil
}

func (s *Session) removeUser() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.using.Done()
	s.users--
	if s.info.State == "dead" {
		return
	}
	if s.touch(); s.users == 0 {
		s.info.State = "idle"
	}
}

// touch records the time of use. The caller holds the lock.
func (s *Session) touch() { s.used, s.info.Used = s.manager.cfg.Now(), s.manager.now() }

// lastUsed returns the time of the last use, with a monotonic reading.
func (s *Session) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Use keeps the session from expiring, and its secrets from being wiped, until done is called.
func (s *Session) Use() (done func(), err error) {
	if err := s.addUser(); err != nil {
		return nil, err
	}
	return sync.OnceFunc(s.removeUser), nil
}

// Dead returns a channel that is closed when the session has ended.
func (s *Session) Dead() <-chan struct{} { return s.dead }

// Environment returns the environment variables of all programs in the session.
func (s *Session) Environment() []string { return slices.Clone(s.plan.Env) }

// AddLease keeps a lease until the session ends: later cells may still print secrets that earlier ones leased.
func (s *Session) AddLease(l *vault.Lease) { s.plan.Leases.Add(l) }

// Leases returns all leases of the session.
func (s *Session) Leases() vault.Leases { return s.plan.Leases.Leases() }

// Redact removes all secrets that the session ever leased from text.
func (s *Session) Redact(text string) string { return s.Leases().Redact(text) }

// Env returns the variables that cells received, with secrets masked.
func (s *Session) Env() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	env := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.cells)) {
		env = append(env, name+"="+s.cells[name])
	}
	for _, l := range s.Leases() {
		for _, name := range l.Names() {
			env = append(env, name+"="+vault.Mark)
		}
	}
	return env
}

// Outbound returns the session's egress session, nil if it has none.
func (s *Session) Outbound() *outbound.Session { return s.plan.Outbound }

// Tools returns the functions of the session's client that its code can call.
func (s *Session) Tools() []kernel.Tool { return s.plan.Tools }

// ToolTimeout bounds each call of a tool; 0 is unset.
func (s *Session) ToolTimeout() time.Duration { return s.plan.ToolTimeout }

// Sandbox returns the sandbox of the session.
func (s *Session) Sandbox() backends.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sandbox
}

// Info returns a description of the session.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.Restarts = slices.Clone(info.Restarts)
	return info
}

// Change lets f modify the session's Info.
func (s *Session) Change(f func(*Info)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.info)
}

// shutdownTimeout bounds the wait for the running cell to report its end.
const shutdownTimeout = time.Minute

// closeAll ends the interpreters and the sandbox, and wipes the secrets. It first waits for running cells and
// programs, which closing the sandbox kills, until their output is redacted.
func (s *Session) closeAll() {
	s.Sandbox().Close()
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.using.Wait()
	}()
	select {
	case <-left:
	case <-time.After(shutdownTimeout):
	}
	s.mu.Lock()
	all := append(slices.Collect(maps.Values(s.more)), &s.interpreter)
	kernels := make([]*kernel.Kernel, 0, len(all))
	for _, in := range all {
		if in.kernel != nil {
			kernels = append(kernels, in.kernel)
		}
	}
	s.mu.Unlock()
	for _, k := range kernels {
		k.Close()
	}
	s.guests.close()
	s.Leases().Close()
	s.done()
}
