// Package packages installs the packages that programs import, and mounts them read-only in sandboxes.
//
// A namespace has one layer for each kind of interpreter, of this host or of an image: a directory that runs see and
// can't write. An install runs pip or npm in a sandbox of its own, whose only way out is a gateway to the configured
// registries that lets nothing but requests for files pass, then puts the new files beside those of the layer that
// there is, in a new one, and switches to that at once. Sandboxes that run keep the layer they started with, which
// lives as long as it is held. What was unpacked is cached, for installs of all namespaces and sessions. Two scripts
// for each language know its package manager: one says what it is configured with, on this host, and one installs, in
// the sandbox.
//
// The order of the files is packages, install, cache, session, layers, layer, kind, manager, registries, settings,
// output, check.
package packages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/egress"
)

// Config holds the operator's decisions about packages.
type Config struct {
	// Dir is a host directory of ours, in which layers are kept. Servers may share it. It is made
	// when it is missing, and closed to other users.
	Dir string
	// Scripts lets packages run code of theirs while they are installed: npm's install scripts and
	// the building of Python source packages. It runs in the sandbox, and reaches no more than the
	// proxy gives.
	Scripts bool
	// MaxBytes bounds the files of one layer; 0 is 2 GiB.
	MaxBytes int64
	// CacheBytes bounds what is kept of what was unpacked, for later installs; 0 is
	// DefaultCacheBytes, and what is negative keeps nothing.
	CacheBytes int64
}

// DefaultMaxBytes is the MaxBytes of a zero Config.
const DefaultMaxBytes = 2 << 30

// DefaultCacheBytes is the CacheBytes of a zero Config.
const DefaultCacheBytes = 2 << 30

// errClosed is the error of an operation on a closed store, and the cause of the end of an install.
var errClosed = errors.New("the package store is closed")

// Store keeps layers. All methods may be called concurrently.
type Store struct {
	cfg   Config
	asked lazy.Cache[settings] // of the package managers, by language and backend
	kinds lazy.Cache[string]   // by backend and language
	open  context.Context      // ends with errClosed, and installs with it
	end   context.CancelCauseFunc
	work  sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session
}

// Open makes the directory, accessible to this user only, and removes the files of killed servers from it.
func Open(c Config) (*Store, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, fmt.Errorf("open package store: %q is not an absolute path", c.Dir)
	}
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), DefaultMaxBytes)
	c.CacheBytes = max(cmp.Or(c.CacheBytes, DefaultCacheBytes), 0)
	s := &Store{cfg: c, sessions: map[string]*session{}}
	s.open, s.end = context.WithCancelCause(context.Background())
	// It holds code that programs will import: nobody else may write there.
	if err := cmp.Or(os.MkdirAll(c.Dir, 0o700), os.Chmod(c.Dir, 0o700)); err != nil {
		return nil, fmt.Errorf("open package store: %w", err)
	}
	directories, _ := filepath.Glob(filepath.Join(c.Dir, "namespaces", "*", "*"))
	for _, dir := range append(directories, string(s.sessionLayers())) {
		layers(dir).prune()
	}
	return s, nil
}

// Close ends installs that run, and removes the directories of sessions. Views that are still held
// stay valid; layers stay for the next server.
func (s *Store) Close() error {
	s.mu.Lock()
	s.end(errClosed)
	s.mu.Unlock()
	s.work.Wait()
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	var err error
	for _, id := range open {
		err = errors.Join(err, s.DropSession(id))
	}
	return err
}

// startWork starts an operation that Close waits for, until the returned function is called. Its context ends when the
// store is closed.
func (s *Store) startWork(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil {
		return nil, nil, errClosed
	}
	s.work.Add(1)
	ctx, stop := until(ctx, s.open)
	return ctx, func() { stop(); s.work.Done() }, nil
}

// until returns a context that ends with ctx, and with the cause of end. The second result must be called.
func until(ctx, end context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(end, func() { cancel(context.Cause(end)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Order asks for packages.
type Order struct {
	ID        string // of the request: names the sandbox
	Namespace string
	Session   string // "" installs into the namespace's layer
	Language  string // "python" or "node"
	Packages  []string
	Backend   backends.Backend
	Profile   string
	Require   []string
	Limits    backends.Limits // zero fields are an install's own
	// Egress has Decided, which records what the install reaches, and the limits of connections. Its Dialer tells which
	// addresses registries may lead to. The rest is the install's own.
	Egress egress.Config
	// Progress, if not nil, is given lines as the package manager writes them, one at a time.
	Progress func(line string)
}

// Receipt is the outcome of an order.
type Receipt struct {
	// Packages are those that this order brought: the named ones, and those that they need.
	Packages []Package
	ExitCode int    // of the package manager; not 0: nothing has changed
	Stdout   string // both cut in the middle where they are long
	Stderr   string
	Result   backends.Result
	Hosts    []egress.Record // connections that the package manager asked for
	Layer    string          // hex SHA-256 over the list of the layer's files; "" when nothing has changed
	Cached   bool            // the files had been unpacked before
}

// Package is one package of a layer. The tags named about stand in the schemas of tools.
type Package struct {
	Name      string `json:"name" about:"The package."`
	Version   string `json:"version" about:"Its exact version."`
	Hash      string `json:"hash" redact:"-" about:"The hash of the download."` // "sha256:<hex>" for Python, npm's integrity string for Node
	Requested bool   `json:"requested" about:"True if requested, false if a dependency."`
}

// View is the part of a sandbox that shows a layer. Its zero value, of a layer that is not there, shows nothing.
type View struct {
	Mounts []backends.Mount // read-only
	Env    []string         // KEY=VALUE
	Layer  string           // hex SHA-256, as in the Receipt that made it; "" for a session's
	// Release ends the view, which no sandbox shows any more. It is never nil, and may be called again.
	Release func()
}

// limits returns those of an order, with an install's own where it names none: package managers are hungrier than
// programs, and a download and its unpacked files are there at the same time.
func (s *Store) limits(l backends.Limits) backends.Limits {
	return l.WithFallback(backends.Limits{RAM: 1 << 30, Wall: 5 * time.Minute, CPU: 2, Processes: 64, Disk: 2 * s.cfg.MaxBytes})
}
