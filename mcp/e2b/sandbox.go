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

// Sandbox is a session of the pipeline that was made over E2B's protocol. Its exported fields never change.
type Sandbox struct {
	ID        string // in small letters, as host names have it; of its first session
	Namespace string
	Owner     identity.Identity // who made it
	Template  string
	Env       map[string]string
	Metadata  map[string]string
	Created   time.Time

	runtime   Template   // what its sessions are made in
	autoPause bool       // its files are kept when its time is up
	changing  sync.Mutex // held while it is paused or resumed

	mu       sync.Mutex
	current  string // id of its session: another one each time that it is resumed
	internet *bool
	network  *networkConfig
	samples  []metric
	contexts []*codeContext
	passes   []*pass // of those who were told how it is reached, the oldest first
}

// session returns the id of the session that the sandbox is, or was before it was paused.
func (b *Sandbox) session() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// net returns what its network was set to.
func (b *Sandbox) net() (internet *bool, network *networkConfig) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.internet, b.network
}

// target is the sandbox as its daemon knows it, for requests with a pass; nil is none.
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

// lives reports whether a sandbox's session has not ended.
func (s *Server) lives(b *Sandbox) bool {
	info, err := session.InfoOf(s.cfg.Pipeline, b.Namespace, b.session())
	return err == nil && info.State != "dead"
}

// exists reports whether a sandbox runs or is paused. One that does neither is forgotten.
func (s *Server) exists(b *Sandbox) bool {
	if s.lives(b) || s.paused(b) {
		return true
	}
	if !b.changing.TryLock() { // it is just being paused or resumed
		return true
	}
	defer b.changing.Unlock()
	if s.lives(b) || s.paused(b) {
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
