// Package ahead begins the sandbox of a run while libraries that the run does not need yet still make their tables.
//
// Packages are initialised one after the other, each after those that it imports; of several that could be next, it is
// the one whose path sorts first. This one imports little, so its turn comes before that of
// github.com/santhosh-tekuri/jsonschema, which takes longer than all others together. In another order this would be
// as right, only of less use.
package ahead

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// begun is a backend that has begun to make a sandbox, until somebody takes it.
type begun struct {
	made chan struct{} // closed when the rest is known

	mu      sync.Mutex
	config  process.Config
	backend *process.Backend // nil once it is taken, and where there is none
}

var first = begin(os.Args, os.Environ())

// Take returns the backend that has begun to make a sandbox, if there is one with this configuration that nobody has
// taken yet, or else a new one. The caller closes it.
func Take(c process.Config) *process.Backend {
	if b := first.take(c); b != nil {
		return b
	}
	return process.New(c)
}

// Close ends what was begun and never taken. It must be called before the process ends.
func Close() { first.close() }

// begin starts to make a sandbox if a command line is one of run, and nothing in it says in which backend or with
// which configuration.
func begin(args, environ []string) *begun {
	b := &begun{made: make(chan struct{})}
	if !plain(args) {
		close(b.made)
		return b
	}
	go func() {
		defer close(b.made)
		cfg, err := config.Load(config.Options{Env: environ})
		if err != nil || cfg.Backend != "process" {
			return // the command will say what is wrong
		}
		require := cfg.Profiles[cfg.Profile].Require
		b.config = process.Config{StateDir: cfg.StateDir, Delegate: slices.Contains(require, backends.LayerCgroup)}
		b.backend = process.New(b.config)
		b.backend.Warm()
	}()
	return b
}

// plain says whether a command line runs something, and leaves open how.
func plain(args []string) bool {
	if len(args) < 3 || args[1] != "run" {
		return false
	}
	for _, word := range args[2:] {
		flag, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case word == "--":
			return true
		case !strings.HasPrefix(word, "-"):
		case slices.Contains([]string{"backend", "config", "gpus", "h", "help", "profile", "require"}, flag):
			return false
		}
	}
	return true
}

func (b *begun) take(c process.Config) *process.Backend {
	<-b.made
	b.mu.Lock()
	defer b.mu.Unlock()
	hidden := c.Hidden // of what is shown later
	c.Hidden = nil
	if b.backend == nil || !reflect.DeepEqual(c, b.config) {
		return nil
	}
	taken := b.backend
	taken.Hide(hidden)
	b.backend = nil
	return taken
}

func (b *begun) close() {
	<-b.made
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.backend != nil {
		b.backend.Close()
		b.backend = nil
	}
}
