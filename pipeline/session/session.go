package session

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Session is one sandbox with its interpreter. Its methods may be called concurrently.
type Session struct {
	manager  *Manager
	build    func(context.Context) (backends.Sandbox, error)
	env      []string // of the interpreter, on top of the sandbox's own
	close    []func() // what else ends with it
	outbound *outbound.Session

	line []*ticket     // guarded by the manager's lines
	sem  chan struct{} // has a value while nobody uses the session

	mu      sync.Mutex
	sandbox backends.Sandbox
	info    Info
	kernel  *kernel.Kernel
	lost    string // why the last interpreter's state is gone, until somebody was told
	dead    chan struct{}
	leases  *vault.Held
	cells   map[string]string // NAME -> VALUE of the environment that cells were given
	seen    map[FileID]Seen
}

// FileID stands for a file's name. A program can make a quarter of a million names of 4 KiB each, which
// are too many bytes to remember.
type FileID [16]byte

// IDOf returns the id of a name in the workspace.
func IDOf(name string) FileID {
	sum := sha256.Sum256([]byte(name))
	return FileID(sum[:16])
}

// Seen is a file of the workspace as it was after the cell before.
type Seen struct {
	Size    int64
	Changed time.Time
}

// ErrDead is returned for a session that has ended. The text says why.
var ErrDead = errors.New("the session has ended")

// Acquire waits for its place in line (see [Place]), and locks the session. If the interpreter was lost, Acquire starts a new one. Release unlocks the
// session.
func (s *Session) Acquire(ctx context.Context) (*Guard, error) {
	leave, err := s.Wait(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.sem:
	case <-s.dead:
		err = s.ended()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		leave()
		return nil, err
	}
	c := &Guard{Session: s, leave: leave}
	if err := c.ready(ctx); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

func (s *Session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%w: %s", ErrDead, reasons[s.info.Ended])
}

// Over returns an error that says why the session has ended, nil while it lives.
func (s *Session) Over() error {
	if s.Info().State != "dead" {
		return nil
	}
	return s.ended()
}

// reasons says in words why a session has ended.
var reasons = map[string]string{
	"closed":   "it was closed",
	"idle":     "nobody used it for as long as it may be idle",
	"lifetime": "it has lived as long as it may",
	"failed":   "its interpreter could not be started again",
	"server":   "the server is shutting down",
}

// Guard is the exclusive use of a session, until Release.
type Guard struct {
	*Session
	leave func() // its place in line
	once  sync.Once
}

// ready starts a new interpreter if the last one is dead.
func (c *Guard) ready(ctx context.Context) error {
	s := c.Session
	select {
	case <-s.dead: // it ended while we waited
		return s.ended()
	default:
	}
	c.reap()
	if c.Kernel() == nil {
		return s.restart(ctx)
	}
	c.mark("busy")
	return nil
}

// reap drops the interpreter if it is dead.
func (c *Guard) reap() {
	k := c.Kernel()
	if k == nil {
		return
	}
	select {
	case <-k.Done():
		c.recordLoss(k)
	default:
	}
}

// recordLoss notes why an interpreter died. A cell that is told of it at once needs no second notice.
func (s *Session) recordLoss(k *kernel.Kernel) {
	why := s.Redact(Death(k)) // which may quote what the program said
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kernel != k {
		return
	}
	s.kernel = nil
	s.lost = why
	s.info.Restarts = append(s.info.Restarts, Restart{s.manager.now(), s.lost})
	s.info.Restarts = s.info.Restarts[max(0, len(s.info.Restarts)-maxRestarts):]
}

// maxRestarts is how many of the last restarts a session's Info lists.
const maxRestarts = 20

// Death describes how an interpreter ended.
func Death(k *kernel.Kernel) string {
	r, err := k.Death()
	switch {
	case err != nil:
		return err.Error()
	case r.Ended == backends.EndedOOM:
		return "it ran out of memory"
	case r.Ended == backends.EndedLimit:
		return "it ran into the limit " + r.Limit
	case r.Ended == backends.EndedSignal:
		return "it was killed by " + r.Signal
	case r.Ended == backends.EndedExit || r.Ended == backends.EndedOK:
		return fmt.Sprintf("it exited with code %d", r.ExitCode)
	}
	return "it had to be killed"
}

// restart starts a new interpreter, in a new sandbox if the old one went down with the last one:
// some kernels kill all that is in a group which runs out of memory.
func (s *Session) restart(ctx context.Context) error {
	k, err := kernel.Start(ctx, s.Sandbox(), s.info.Language, s.env)
	if err != nil && ctx.Err() == nil && s.Over() == nil {
		k, err = s.rebuild(ctx)
	}
	if err != nil && s.Over() != nil {
		return s.Over() // somebody has closed its sandbox meanwhile
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		go s.manager.end(s, "failed") // it waits for the lock, which we hold
		return fmt.Errorf("start the session's interpreter again: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kernel, s.cells = k, map[string]string{}
	if s.info.State != "dead" {
		s.info.State = "busy"
	}
	return nil
}

func (s *Session) rebuild(ctx context.Context) (*kernel.Kernel, error) {
	sandbox, err := s.build(ctx)
	if err != nil {
		return nil, err
	}
	k, err := kernel.Start(ctx, sandbox, s.info.Language, s.env)
	if err != nil {
		sandbox.Close()
		return nil, err
	}
	s.mu.Lock()
	if s.info.State == "dead" { // it ended meanwhile, and whoever ends it knows the old sandbox alone
		s.mu.Unlock()
		sandbox.Close()
		k.Close()
		return nil, s.ended()
	}
	old := s.sandbox
	s.sandbox, s.seen = sandbox, map[FileID]Seen{}
	s.lost += ", and its sandbox with it, so that its files are lost, too"
	s.mu.Unlock()
	old.Close()
	return k, nil
}

func (s *Session) mark(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info.State != "dead" {
		s.info.State, s.info.Used = state, s.manager.now()
	}
}

// Release unlocks the session. It is safe to call more than once.
func (c *Guard) Release() {
	c.once.Do(func() {
		c.mark("idle")
		c.sem <- struct{}{}
		c.leave()
	})
}

// Run runs a cell.
func (c *Guard) Run(ctx context.Context, cell kernel.Cell) (kernel.Outcome, error) {
	s := c.Session
	s.mu.Lock()
	s.info.Cells++
	if cell.Name == "" {
		cell.Name = fmt.Sprintf("cell %d", s.info.Cells)
	}
	k := s.kernel
	s.mu.Unlock()
	return k.Run(ctx, cell)
}

// Note remembers what Env tells: the variables that a cell was given, without the secrets.
func (c *Guard) Note(env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		c.cells[name] = value
	}
}

// Kernel is the interpreter, for what is no cell.
func (c *Guard) Kernel() *kernel.Kernel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kernel
}

// Contained returns the layers that hold the interpreter.
func (c *Guard) Contained() backends.Containment { return c.Kernel().Contained() }

// Lost describes why the interpreter's state is gone, once for each time that it was lost.
func (c *Guard) Lost() string {
	s := c.Session
	c.reap()
	s.mu.Lock()
	defer s.mu.Unlock()
	why := s.lost
	s.lost = ""
	return why
}

// Files returns the files of the workspace after the last cell, not to be changed.
func (c *Guard) Files() map[FileID]Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// See remembers what the workspace holds now.
func (c *Guard) See(files map[FileID]Seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = files
}

// AddLease keeps a lease until the session ends: what one cell has leased, a later one may still print.
func (c *Guard) AddLease(l *vault.Lease) { c.leases.Add(l) }

// Leases returns all leases of the session.
func (s *Session) Leases() vault.Leases { return s.leases.Leases() }

// Redact removes all secrets that the session ever leased from text.
func (s *Session) Redact(text string) string { return s.Leases().Redact(text) }

// Env returns the variables that cells were given, secrets masked.
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
func (s *Session) Outbound() *outbound.Session { return s.outbound }

// Sandbox returns the sandbox of the session.
func (s *Session) Sandbox() backends.Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sandbox
}

// Info tells about the session.
func (s *Session) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	info.Restarts = slices.Clone(info.Restarts)
	return info
}

// Change has f change what is told of the session.
func (s *Session) Change(f func(*Info)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.info)
}

// shutdownTimeout bounds the wait for the running cell to report its end.
const shutdownTimeout = time.Minute

// shut ends the interpreter and the sandbox, and wipes the secrets: not before the cell under way,
// whose program is dead by then, has had them taken out of what it says.
func (s *Session) shut() error {
	err := s.Sandbox().Close()
	select {
	case <-s.sem:
	case <-time.After(shutdownTimeout):
	}
	s.mu.Lock()
	k := s.kernel
	s.mu.Unlock()
	if k != nil {
		k.Close()
	}
	s.Leases().Close()
	s.done()
	return err
}
