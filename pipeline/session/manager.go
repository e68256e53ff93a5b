package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Manager holds sessions, and ends unused ones. Its methods may be called concurrently.
type Manager struct {
	cfg   Config
	ended func(Info)
	lines sync.Mutex
	lists guest.ListSlots // bound the large file lists of all sessions together

	mu      sync.Mutex
	all     map[string]*Session
	gone    []Info                  // the last ended sessions, the newest last
	coming  map[startingSession]int // sessions that are being started
	closed  bool
	stop    chan struct{}
	reaping sync.WaitGroup
}

// Config bounds the sessions. Zero fields get the values of Defaults.
type Config struct {
	PerNamespace int           // concurrent sessions of one namespace
	PerIdentity  int           // concurrent sessions that one identity created over HTTP
	Total        int           // concurrent sessions in all
	Idle         time.Duration // after which an unused session ends, unless it has its own limit
	Lifetime     time.Duration // after which a session ends in any case, unless it has its own limit; also the maximum
	MaxIdle      time.Duration // maximum of a session's own idle limit
	PausedBytes  int64         // bytes of the files of all paused sessions together

	Kernels map[string]kernel.CustomLanguage // kernels of the operator's own languages, by name

	// Pause saves the files of a session that is paused when its lifetime is over, and ends it; nil only ends it.
	Pause func(context.Context, Info)
	Now   func() time.Time // nil is time.Now
}

// Defaults are the bounds that apply if the operator sets none.
var Defaults = Config{PerNamespace: 64, PerIdentity: 256, Total: 1024, PausedBytes: 4 << 30, Idle: 30 * time.Minute,
	MaxIdle: 24 * time.Hour, Lifetime: 24 * time.Hour}

// Errors that a caller may match.
var (
	ErrUnknown = errors.New("unknown session")
	ErrFull    = errors.New("session limit reached")
	// ErrCapacity is the ErrFull of the whole server, which the caller did not cause.
	ErrCapacity = fmt.Errorf("%w on this server", ErrFull)
)

var errClosed = errors.New("the server is shutting down")

// maxGone bounds the ended sessions that are remembered.
const maxGone = 256

// NewManager returns a manager without sessions. It calls ended for each ended session once all of its resources are
// released.
func NewManager(cfg Config, ended func(Info)) *Manager {
	cfg.Idle = cmp.Or(max(cfg.Idle, 0), Defaults.Idle)
	cfg.Lifetime = cmp.Or(max(cfg.Lifetime, 0), Defaults.Lifetime)
	cfg.MaxIdle = cmp.Or(max(cfg.MaxIdle, 0), Defaults.MaxIdle)
	cfg.PerNamespace = cmp.Or(max(cfg.PerNamespace, 0), Defaults.PerNamespace)
	cfg.PerIdentity = cmp.Or(max(cfg.PerIdentity, 0), Defaults.PerIdentity)
	cfg.Total = cmp.Or(max(cfg.Total, 0), Defaults.Total)
	cfg.PausedBytes = cmp.Or(max(cfg.PausedBytes, 0), Defaults.PausedBytes)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	k := &Manager{cfg: cfg, ended: ended, all: map[string]*Session{}, coming: map[startingSession]int{}, stop: make(chan struct{}),
		lists: guest.NewListSlots()}
	k.reaping.Go(k.reap)
	return k
}

// Bounds returns the bounds in force, with the defaults.
func (k *Manager) Bounds() Config { return k.cfg }

// now returns the time for people to read. Durations are measured by cfg.Now, because UTC drops the monotonic reading
// and a wall clock jumps.
func (k *Manager) now() time.Time { return k.cfg.Now().UTC() }

// Plan describes a new session.
type Plan struct {
	Info     Info            // without times and state; Idle and Lifetime 0 are the defaults
	Env      []string        // of the interpreters, in addition to the sandbox's own
	Leases   *vault.LeaseSet // of the session; nil is an empty set
	Outbound *outbound.Session

	Tools       []kernel.Tool
	ToolTimeout time.Duration // of each call

	Agent func() bool // whether its sandbox shows our agent, which accesses files; nil is true

	View        *workspace.View // of a directory of the host whose changes are proposed; nil without one
	BeforeClose func(*Session)  // is called before its sandbox is closed, if it is not nil

	Close []func() // called when the session has ended, or could not be started
}

// Check refuses idle and lifetime limits above the maximum.
func (k *Manager) Check(idle, lifetime time.Duration) error {
	switch {
	case idle < 0 || lifetime < 0:
		return errors.New("idle and lifetime limits must be more than 0")
	case idle > k.cfg.MaxIdle:
		return fmt.Errorf("the maximum idle limit of a session is %s", k.cfg.MaxIdle)
	case lifetime > k.cfg.Lifetime:
		return fmt.Errorf("the maximum lifetime of a session is %s", k.cfg.Lifetime)
	}
	return nil
}

// Open starts a session in the sandbox that start returns, and then calls ready. If ready fails, the session ends.
func (k *Manager) Open(ctx context.Context, p Plan, start func(context.Context) (backends.Sandbox, error), ready func(Info) error) (Info,
	error) {
	p.Leases = cmp.Or(p.Leases, &vault.LeaseSet{})
	s := &Session{manager: k, build: start, plan: p, info: p.Info, more: map[string]*interpreter{},
		interpreter: interpreter{Context: Context{Language: p.Info.Language}, sem: make(chan struct{}, 1)}, guests: newGuests(),
		dead: make(chan struct{}), cells: map[string]string{}, seen: map[FileID]SeenFile{}}
	place := startingSession{p.Info.Namespace, p.Info.Owner}
	if err := k.reserveRoom(place); err != nil {
		s.done()
		return Info{}, err
	}
	defer k.releaseRoom(place)
	if err := s.start(ctx); err != nil {
		s.done()
		return Info{}, err
	}
	err := ready(s.Info())
	if err == nil {
		err = k.add(s)
	}
	s.sem <- struct{}{}
	if err != nil {
		s.closeAll()
		return Info{}, err
	}
	return s.Info(), nil
}

// done releases the session's resources other than its sandbox.
func (s *Session) done() {
	for _, f := range s.plan.Close {
		f()
	}
}

func (s *Session) start(ctx context.Context) (err error) {
	if s.sandbox, err = s.build(ctx); err != nil {
		return err
	}
	i := &s.info
	if i.Bare {
		s.Language = ""
		// A program that does nothing makes the backend read the layers in force from the kernel.
		r, err := s.sandbox.Exec(ctx, backends.Command{Args: []string{"sh", "-c", ":"}}, backends.Streams{})
		if err != nil {
			s.sandbox.Close()
			return fmt.Errorf("start the first program: %w", err)
		}
		i.Layers = r.Contained.InForce()
	} else if s.kernel, err = s.startMain(ctx, s.sandbox); err != nil {
		s.sandbox.Close()
		return fmt.Errorf("start the interpreter: %w", err)
	} else {
		i.Layers = s.kernel.Contained().InForce()
	}
	i.State, i.Created = "idle", s.manager.now()
	i.Used = i.Created
	s.began = s.manager.cfg.Now()
	s.used = s.began
	i.Idle = cmp.Or(i.Idle, s.manager.cfg.Idle.Seconds())
	i.Lifetime = cmp.Or(i.Lifetime, s.manager.cfg.Lifetime.Seconds())
	return nil
}

// startingSession names the namespace and owner of a session that is being started.
type startingSession struct{ namespace, owner string }

// reserveRoom counts a session that is being started, until releaseRoom, so that concurrent starts respect the
// limits.
func (k *Manager) reserveRoom(c startingSession) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	total, own, made := len(k.all), 0, 0
	count := func(of startingSession, n int) {
		if of.namespace == c.namespace {
			own += n
		}
		if of.owner == c.owner {
			made += n
		}
	}
	for of, n := range k.coming {
		total += n
		count(of, n)
	}
	for _, s := range k.all {
		count(startingSession{s.info.Namespace, s.info.Owner}, 1)
	}
	switch {
	case k.closed:
		return errClosed
	case own >= k.cfg.PerNamespace:
		return fmt.Errorf("%w: namespace %q has %d", ErrFull, c.namespace, own)
	case c.owner != "" && made >= k.cfg.PerIdentity:
		return fmt.Errorf("%w: %s has created %d", ErrFull, c.owner, made)
	case total >= k.cfg.Total:
		return fmt.Errorf("%w: %d in all namespaces together", ErrCapacity, total)
	}
	k.coming[c]++
	return nil
}

func (k *Manager) releaseRoom(c startingSession) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.coming[c]--; k.coming[c] == 0 {
		delete(k.coming, c)
	}
}

func (k *Manager) add(s *Session) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errClosed
	}
	k.all[s.info.ID] = s
	return nil
}

// FindLiving returns a living session. The error about an ended session says why it ended.
func (k *Manager) FindLiving(id string) (*Session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.all[id]; s != nil {
		return s, nil
	}
	if i := k.endedIndex(id); i >= 0 {
		return nil, fmt.Errorf("%w: %s", ErrDead, reasons[k.gone[i].Ended])
	}
	return nil, fmt.Errorf("%w: %.40q", ErrUnknown, id)
}

// endedIndex returns the index of a session among the ended ones, or -1. The caller holds the lock.
func (k *Manager) endedIndex(id string) int {
	return slices.IndexFunc(k.gone, func(i Info) bool { return i.ID == id })
}

// Info describes a session, for a while after its end too.
func (k *Manager) Info(id string) (Info, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.all[id]; s != nil {
		return s.Info(), nil
	}
	if i := k.endedIndex(id); i >= 0 {
		return k.gone[i], nil
	}
	return Info{}, fmt.Errorf("%w: %.40q", ErrUnknown, id)
}

// List describes the sessions of a namespace, or of all for "": the living ones by id, then the last ended ones.
func (k *Manager) List(namespace string) []Info {
	k.mu.Lock()
	living := slices.Collect(maps.Values(k.all))
	gone := slices.Clone(k.gone)
	k.mu.Unlock()
	list := []Info{}
	for _, s := range living {
		list = append(list, s.Info())
	}
	slices.SortFunc(list, func(a, b Info) int { return strings.Compare(a.ID, b.ID) })
	slices.Reverse(gone)
	return slices.DeleteFunc(append(list, gone...), func(i Info) bool { return namespace != "" && i.Namespace != namespace })
}

// Reschedule sets the time at which a session ends; with extend, it only moves the end later.
func (k *Manager) Reschedule(s *Session, at time.Time, extend bool) error {
	most := k.cfg.Lifetime
	if at.Sub(s.began) > most && !extend {
		return fmt.Errorf("the maximum lifetime of a session is %s", most)
	}
	s.Change(func(i *Info) {
		lifetime := max(0, at.Sub(s.began).Seconds())
		if extend {
			lifetime = max(min(lifetime, most.Seconds()), i.Lifetime)
		}
		i.Lifetime = lifetime
		i.Idle = max(i.Idle, lifetime)
	})
	return nil
}

// End ends a session. why becomes the Ended field of its Info, such as "closed".
func (k *Manager) End(id, why string) (Info, error) {
	s, err := k.FindLiving(id)
	if err != nil {
		return Info{}, err
	}
	k.endSession(s, why)
	return k.Info(id)
}

// endSession ends a session once, even while it is busy.
func (k *Manager) endSession(s *Session, why string) {
	k.mu.Lock()
	if k.all[s.info.ID] != s {
		k.mu.Unlock()
		return
	}
	delete(k.all, s.info.ID)
	s.mu.Lock()
	s.info.State, s.info.Ended = "dead", why
	info := s.info
	s.mu.Unlock()
	k.gone = append(k.gone, info)
	k.gone = k.gone[max(0, len(k.gone)-maxGone):]
	k.mu.Unlock()
	close(s.dead)
	if s.plan.BeforeClose != nil {
		s.plan.BeforeClose(s)
		info = s.Info()
		k.mu.Lock()
		if i := k.endedIndex(info.ID); i >= 0 {
			k.gone[i] = info
		}
		k.mu.Unlock()
	}
	s.closeAll()
	k.ended(info)
}

// reap ends expired sessions until the manager is closed.
func (k *Manager) reap() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-tick.C:
			k.expire()
		}
	}
}

func (k *Manager) expire() {
	k.mu.Lock()
	living := slices.Collect(maps.Values(k.all))
	k.mu.Unlock()
	for _, s := range living {
		i, now := s.Info(), k.cfg.Now()
		switch over := now.Sub(s.began).Seconds() >= i.Lifetime; {
		case over && i.Pause && k.cfg.Pause != nil:
			k.pause(s)
		case over:
			k.endSession(s, "lifetime")
		case i.State == "idle" && now.Sub(s.lastUsed()).Seconds() >= i.Idle:
			k.endSession(s, "idle")
		}
	}
}

// maxPausing bounds the time beyond its lifetime that a session gets to save its files.
const maxPausing = 2 * time.Minute

// pause saves a session's files, once, and ends it in any case.
func (k *Manager) pause(s *Session) {
	if s.pausing.Swap(true) {
		return
	}
	k.reaping.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxPausing)
		defer cancel()
		go func() { // a server that shuts down does not wait
			select {
			case <-k.stop:
				cancel()
			case <-ctx.Done():
			}
		}()
		k.cfg.Pause(ctx, s.Info())
		k.endSession(s, "lifetime")
	})
}

// Close ends all sessions. Later ones are refused.
func (k *Manager) Close() {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.closed = true
	living := slices.Collect(maps.Values(k.all))
	k.mu.Unlock()
	close(k.stop)
	k.reaping.Wait()
	var all sync.WaitGroup
	for _, s := range living {
		all.Go(func() { k.endSession(s, "server") })
	}
	all.Wait()
}
