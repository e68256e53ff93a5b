package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	interpreter // the first, which all that names none is about; without a language there is none
	manager     *Manager
	build       func(context.Context) (backends.Sandbox, error)
	env         []string // of the interpreter, on top of the sandbox's own
	close       []func() // what else ends with it
	outbound    *outbound.Session
	tools       []kernel.Tool
	toolTimeout time.Duration

	line []*ticket // guarded by the manager's lines

	mu      sync.Mutex
	sandbox backends.Sandbox
	info    Info
	more    map[string]*interpreter // beside the first, by id
	users   int                     // that keep it from being idle
	using   sync.WaitGroup          // the same
	dead    chan struct{}
	leases  *vault.Held
	guests  guests
	pausing atomic.Bool
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

// Acquire waits for its place in line (see [Place]), and locks the session's first interpreter. If the interpreter was lost, Acquire starts a new
// one. Release unlocks it.
func (s *Session) Acquire(ctx context.Context) (*Guard, error) {
	if s.language == "" {
		return nil, ErrBare
	}
	leave, err := s.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return s.acquire(ctx, &s.interpreter, leave)
}

// acquire locks an interpreter. leave is called when it is unlocked, or can't be locked.
func (s *Session) acquire(ctx context.Context, in *interpreter, leave func()) (*Guard, error) {
	var err error
	select {
	case <-in.sem:
	case <-in.gone:
		err = fmt.Errorf("%w: %.40q", ErrNoContext, in.id)
	case <-s.dead:
		err = s.ended()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		leave()
		return nil, err
	}
	if err := s.enter(); err != nil {
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

// Reason says in words why a session has ended, by its Info.
func Reason(ended string) string { return cmp.Or(reasons[ended], "for a reason that is not recorded") }

// reasons says in words why a session has ended.
var reasons = map[string]string{
	"closed":   "it was closed",
	"idle":     "nobody used it for as long as it may be idle",
	"lifetime": "it has lived as long as it may",
	"paused":   "it was paused, and its files are kept",
	"failed":   "its interpreter could not be started again",
	"server":   "the server is shutting down",
	"crash":    "the server was killed",
}

// Guard is the exclusive use of one interpreter of a session, until Release.
type Guard struct {
	*Session
	in   *interpreter
	line func() // leaves its place in line
	once sync.Once
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
	select {
	case <-c.in.gone: // or this
		return fmt.Errorf("%w: %.40q", ErrNoContext, c.in.id)
	default:
	}
	if c.Kernel() == nil && c.in != &s.interpreter {
		return s.startBeside(ctx, c.in)
	}
	if c.Kernel() == nil {
		return s.restart(ctx)
	}
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
		c.recordLoss(c.in, k)
	default:
	}
}

// recordLoss notes why an interpreter died. A cell that is told of it at once needs no second notice.
func (s *Session) recordLoss(in *interpreter, k *kernel.Kernel) {
	why := s.Redact(Death(k)) // which may quote what the program said
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.kernel != k {
		return
	}
	in.kernel, in.lost = nil, why
	s.info.Restarts = append(s.info.Restarts, Restart{s.manager.now(), why})
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
	defer s.guests.forget()
	s.lost += ", and its sandbox with it, so that its files are lost, too"
	s.mu.Unlock()
	old.Close()
	return k, nil
}

// enter counts one more who uses the session, until quit.
func (s *Session) enter() error {
	s.mu.Lock()
	dead := s.info.State == "dead"
	if !dead {
		s.users++
		s.using.Add(1)
		s.info.State, s.info.Used = "busy", s.manager.now()
	}
	s.mu.Unlock()
	if dead {
		return s.ended()
	}
	return nil
}

func (s *Session) quit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.using.Done()
	s.users--
	if s.info.State == "dead" {
		return
	}
	if s.info.Used = s.manager.now(); s.users == 0 {
		s.info.State = "idle"
	}
}

// Use keeps the session from being idle, and its secrets from being wiped, until done is called.
func (s *Session) Use() (done func(), err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	return sync.OnceFunc(s.quit), nil
}

// Dead is closed when the session has ended.
func (s *Session) Dead() <-chan struct{} { return s.dead }

// Environment returns the variables of all that runs in the session.
func (s *Session) Environment() []string { return slices.Clone(s.env) }

// Release unlocks the session. It is safe to call more than once.
func (c *Guard) Release() {
	c.once.Do(func() {
		c.Session.quit()
		c.in.sem <- struct{}{}
		c.line()
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
	k := c.in.kernel
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
	return c.in.kernel
}

// Contained returns the layers that hold the interpreter.
func (c *Guard) Contained() backends.Containment { return c.Kernel().Contained() }

// Lost describes why the interpreter's state is gone, once for each time that it was lost.
func (c *Guard) Lost() string {
	s := c.Session
	c.reap()
	s.mu.Lock()
	defer s.mu.Unlock()
	why := c.in.lost
	c.in.lost = ""
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
func (s *Session) AddLease(l *vault.Lease) { s.leases.Add(l) }

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

// Tools returns the functions of the session's client that its code can call.
func (s *Session) Tools() []kernel.Tool { return s.tools }

// ToolTimeout bounds each call of them; 0 is not said.
func (s *Session) ToolTimeout() time.Duration { return s.toolTimeout }

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

// shut ends the interpreters and the sandbox, and wipes the secrets: not before the cells and programs under way, which are
// dead by then, have had them taken out of what they say.
func (s *Session) shut() error {
	err := s.Sandbox().Close()
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
	return err
}
