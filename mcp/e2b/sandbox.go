package e2b

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/mcp/e2b/envd"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Sandbox is a session of the pipeline created over E2B's protocol. Its exported fields never change.
type Sandbox struct {
	ID        string // lower case, for host names; the id of its first session
	Namespace string
	Owner     identity.Identity // the identity that created it
	Template  string
	Env       map[string]string
	Metadata  map[string]string
	Created   time.Time

	runtime   Template   // backend and profile of its sessions
	autoPause bool       // its files are kept at the timeout
	changing  sync.Mutex // held during pause and resume

	mu       sync.Mutex
	current  string // id of its current session: each resume starts another one
	internet *bool
	network  *networkConfig
	samples  []metric
	contexts []*codeContext
	passes   []*pass // issued passes, oldest first
}

// session returns the id of the sandbox's session, or of the last one before a pause.
func (b *Sandbox) session() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// networkSettings returns the sandbox's network settings.
func (b *Sandbox) networkSettings() (internet *bool, network *networkConfig) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.internet, b.network
}

// target returns the sandbox in the daemon's form, for requests with a pass; p may be nil.
func (b *Sandbox) target(p *pass) envd.Target {
	t := envd.Target{Namespace: b.Namespace, Session: b.session(), Env: b.Env}
	if p != nil {
		t.Token = p.access
	}
	return t
}

func (s *Server) sandboxes() []*Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}

// hasSession reports whether a sandbox's session has not ended.
func (s *Server) hasSession(b *Sandbox) bool {
	info, err := session.InfoOf(s.cfg.Pipeline, b.Namespace, b.session())
	return err == nil && info.State != "dead"
}

// exists reports whether a sandbox is running or paused, and forgets it if it is neither.
func (s *Server) exists(b *Sandbox) bool {
	if s.hasSession(b) || s.isPaused(b) {
		return true
	}
	if !b.changing.TryLock() { // a pause or resume is in progress
		return true
	}
	defer b.changing.Unlock()
	if s.hasSession(b) || s.isPaused(b) {
		return true
	}
	s.forget(b)
	return false
}

func (s *Server) forget(b *Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, b.ID)
}
