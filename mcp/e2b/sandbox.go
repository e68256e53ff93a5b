package e2b

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/mcp/e2b/envd"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Sandbox is a session of the pipeline that was made over E2B's protocol. Its exported fields never change.
type Sandbox struct {
	ID        string // in small letters, as host names have it; of its first session
	Namespace string
	Owner     identity.Identity // who made it, and as whom requests with its tokens act
	Template  string
	Access    string // the token of X-Access-Token, by which the daemon and the interpreter are asked
	Traffic   string // the token of E2B-Traffic-Access-Token, by which only the interpreter is
	Env       map[string]string
	Metadata  map[string]string
	Created   time.Time

	runtime   Template   // what its sessions are made in
	autoPause bool       // its files are kept when its time is up
	changing  sync.Mutex // held while it is paused or resumed

	mu       sync.Mutex
	sessions []string // ids of those that it was and is: one more each time that it is resumed
	internet *bool
	network  *networkConfig
	samples  []metric
	contexts []*codeContext
}

// session returns the id of the session that the sandbox is, or was before it was paused.
func (b *Sandbox) session() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[len(b.sessions)-1]
}

// net returns what its network was set to.
func (b *Sandbox) net() (internet *bool, network *networkConfig) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.internet, b.network
}

// was returns the ids of all of its sessions.
func (b *Sandbox) was() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sessions)
}

// allows reports whether a request has the sandbox's access token.
func (b *Sandbox) allows(r *http.Request) bool {
	return envd.Same(r.Header.Get(headerAccess), b.Access)
}

// allowsTraffic reports whether a request to a port has one of the sandbox's tokens.
func (b *Sandbox) allowsTraffic(r *http.Request) bool {
	return b.allows(r) || envd.Same(r.Header.Get(headerTraffic), b.Traffic)
}

// target is the sandbox as its daemon knows it.
func (b *Sandbox) target() envd.Target {
	return envd.Target{Namespace: b.Namespace, Session: b.session(), Token: b.Access, Env: b.Env}
}

// signed reports whether a URL of /files has a signature of this sandbox's.
func (b *Sandbox) signed(query url.Values) bool {
	return envd.Signed(query, "read", b.Access) || envd.Signed(query, "write", b.Access)
}

// trusts reports whether a request has a token of the sandbox's, or a signature. Which of them it needs is seen to where it is answered.
func (b *Sandbox) trusts(r *http.Request) bool {
	if b.allowsTraffic(r) || r.URL.Path != filesPath {
		return b.allowsTraffic(r)
	}
	return b.signed(r.URL.Query())
}

// sandboxOf returns the sandbox that a request means, nil if there is none: by its id, or, of a signed URL, by the signature. Whoever asks may
// be nobody, so nobody waits for it.
func (s *Server) sandboxOf(r *http.Request, id string) *Sandbox {
	if id != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.all[strings.ToLower(id)]
	}
	query := r.URL.Query()
	if query.Get("signature") == "" || len(r.URL.RawQuery) > maxQuery {
		return nil
	}
	for _, b := range s.sandboxes() {
		if b.signed(query) {
			return b
		}
	}
	return nil
}

func (s *Server) sandboxes() []*Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}

// maxQuery bounds the query of a signed URL, in bytes: it is hashed once for each sandbox.
const maxQuery = 16 << 10

// lives reports whether a sandbox's session has not ended.
func (s *Server) lives(b *Sandbox) bool {
	info, err := s.cfg.Pipeline.Session(b.Namespace, b.session())
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
