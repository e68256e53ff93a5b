// Package packages installs the packages that programs import, and mounts them read-only in sandboxes.
//
// A namespace has one layer per kind of interpreter, of this host or of an image: a directory that runs can read but
// not write. An install runs pip or npm in a sandbox of its own, whose only egress is a gateway to the configured
// registries that passes only requests for files. It then puts the new files and those of the existing layer into a new
// layer, and switches to it atomically. Running sandboxes keep the layer with which they started, which lives as long
// as it is held. Unpacked files are cached for installs of all namespaces and sessions. Two scripts per language know
// its package manager: one reports its configuration, on this host, and one installs, in the sandbox.
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
	// Dir is our host directory for layers. Servers may share it. It is created if missing, and closed to other
	// users.
	Dir string
	// Scripts lets packages run their own code during the install: npm's install scripts and builds of Python source
	// packages. The code runs in the sandbox, and reaches only the registries.
	Scripts bool
	// MaxBytes bounds the files of one layer; 0 is 2 GiB.
	MaxBytes int64
	// CacheBytes bounds the cache of unpacked files; 0 is DefaultCacheBytes, and a negative value disables the cache.
	CacheBytes int64
}

// DefaultMaxBytes is the MaxBytes of a zero Config.
const DefaultMaxBytes = 2 << 30

// DefaultCacheBytes is the CacheBytes of a zero Config.
const DefaultCacheBytes = 2 << 30

// errClosed is the error of operations on a closed store, and the cause that ends its installs.
var errClosed = errors.New("the package store is closed")

// Store stores layers. All methods may be called concurrently.
type Store struct {
	cfg   Config
	asked lazy.Cache[settings] // settings of the package managers, by language and backend
	kinds lazy.Cache[string]   // by backend and language
	open  context.Context      // ends with errClosed, which ends installs
	end   context.CancelCauseFunc
	work  sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session
}

// Open creates the directory, accessible to this user only, and removes leftovers of killed servers.
func Open(c Config) (*Store, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, fmt.Errorf("open package store: %q is not an absolute path", c.Dir)
	}
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), DefaultMaxBytes)
	c.CacheBytes = max(cmp.Or(c.CacheBytes, DefaultCacheBytes), 0)
	s := &Store{cfg: c, sessions: map[string]*session{}}
	s.open, s.end = context.WithCancelCause(context.Background())
	// It holds code that programs import: nobody else may write there.
	if err := cmp.Or(os.MkdirAll(c.Dir, 0o700), os.Chmod(c.Dir, 0o700)); err != nil {
		return nil, fmt.Errorf("open package store: %w", err)
	}
	directories, _ := filepath.Glob(filepath.Join(c.Dir, "namespaces", "*", "*"))
	for _, dir := range append(directories, string(s.sessionLayers())) {
		layers(dir).prune()
	}
	return s, nil
}

// Close ends running installs, and removes the directories of sessions. Held views stay valid; layers stay for the
// next server.
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

// startWork begins an operation that Close waits for, until the returned function is called. Its context ends when
// the store is closed.
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

// until returns a context that ends with ctx, and with the cause of end. The caller must call the function.
func until(ctx, end context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(end, func() { cancel(context.Cause(end)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Order is a request for packages.
type Order struct {
	ID        string // id of the request; names the sandbox
	Namespace string
	Session   string // "" installs into the namespace's layer
	Language  string // "python" or "node"
	Packages  []string
	Backend   backends.Backend
	Profile   string
	Require   []string
	Limits    backends.Limits // zero fields are the defaults of installs
	// Egress has Decided, which records the connections of the install, and their limits. Its Dialer determines the
	// allowed addresses of registries. The install sets the rest.
	Egress egress.Config
	// Progress, if not nil, is called with each output line of the package manager, one at a time.
	Progress func(line string)
}

// Receipt is the outcome of an order.
type Receipt struct {
	// Packages are the packages of this order: the named ones and their dependencies.
	Packages []Package
	ExitCode int    // of the package manager; if not 0, nothing has changed
	Stdout   string // cut in the middle if long, as is Stderr
	Stderr   string
	Result   backends.Result
	Hosts    []egress.Record // connection attempts of the package manager
	Layer    string          // hex SHA-256 of the list of the layer's files; "" if nothing has changed
	Cached   bool            // the files came from the cache
}

// Package is one package of a layer. The about tags are descriptions in the schemas of tools.
type Package struct {
	Name      string `json:"name" about:"The package."`
	Version   string `json:"version" about:"Its exact version."`
	Hash      string `json:"hash" redact:"-" about:"The hash of the download."` // "sha256:<hex>" for Python, npm's integrity string for Node
	Requested bool   `json:"requested" about:"True if requested, false if a dependency."`
}

// View is the part of a sandbox that shows a layer. The zero value shows no layer.
type View struct {
	Mounts []backends.Mount // read-only
	Env    []string         // KEY=VALUE
	Layer  string           // hex SHA-256, as in the Receipt that created it; "" for a session's
	// Release releases the view when no sandbox shows it any more. It is never nil, and may be called again.
	Release func()
}

// limits returns the limits of an order, with the defaults of installs: package managers need more than programs, and
// a download and its unpacked files exist at the same time.
func (s *Store) limits(l backends.Limits) backends.Limits {
	return l.WithFallback(backends.Limits{RAM: 1 << 30, Wall: 5 * time.Minute, CPU: 2, Processes: 64, Disk: 2 * s.cfg.MaxBytes})
}
