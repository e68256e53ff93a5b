// Package e2b serves the pipeline over E2B's protocol, so that its official SDKs work unchanged: the REST API that
// makes and ends sandboxes (the control plane), and what is asked of one sandbox: its daemon, envd, and its code
// interpreter.
//
// A sandbox is a session of the pipeline, under the session's id. Each identity that reaches it gets two tokens more,
// which are for this sandbox and this identity alone: what is asked with them is asked by that identity, and they end
// with its credentials.
package e2b

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/mcp/e2b/envd"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Config holds the parts of a server.
type Config struct {
	Pipeline   *pipeline.Pipeline
	Identities *identity.Checker
	// Namespace is the only one that callers may use. "" gives each the first of its own.
	Namespace string
	Templates map[string]Template // besides the builtin ones, or in their place
	Domain    string              // ports of sandboxes are at PORT-ID.Domain, for all who know the name unless their maker wants a token; "" is nowhere
	Wall      time.Duration       // of code, the most that callers may have; 0 is the default of runs
}

// Server answers E2B's SDKs. Its methods may be called concurrently.
type Server struct {
	cfg     Config
	envd    *envd.Server
	control http.Handler // behind it, requests have an identity
	key     []byte       // of the tokens for sandboxes

	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	all       map[string]*Sandbox // by id
	snapshots []*snapshot         // the oldest first
}

// New returns a server that works as cfg says, until Close.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, envd: envd.New(cfg.Pipeline), all: map[string]*Sandbox{}, key: make([]byte, sha256.Size)}
	rand.Read(s.key) // never fails
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.measureAll(ctx) })
	s.control = cfg.Identities.MiddlewareWith(s.controlPlane(), refuse)
	return s
}

// Close ends what the server does by itself. Sandboxes are the pipeline's.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
	s.envd.Close()
}

// The headers by which an SDK says which sandbox it means, which port of it, and with which of its tokens.
const (
	headerKey     = "X-Api-Key"
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
	headerAccess  = "X-Access-Token"
	headerTraffic = "E2b-Traffic-Access-Token"
)

// The ports of a sandbox at which E2B's own programs answer. Behind all others are programs of the sandbox.
const (
	daemonPort      = 49983
	interpreterPort = 49999
)

// filesPath is of the daemon, and in the URLs that an SDK signs it stands without headers.
const filesPath = "/files"

// roots are the first parts of the control plane's paths, without a version.
var roots = []string{"sandboxes", "templates", "snapshots", "volumes", "secrets", "teams", "nodes", "admin", "api-keys", "access-tokens", "health"}

// Owns reports whether a request is one of E2B's protocol, or one to a port of a sandbox.
func (s *Server) Owns(r *http.Request) bool {
	return OfPort(r.Host, s.cfg.Domain) || owns(r)
}

func owns(r *http.Request) bool {
	return r.Header.Get(headerSandbox) != "" || r.URL.Path == filesPath || isControl(r.URL.Path)
}

// MaxUpload is the most bytes of a file that is written by one request.
const MaxUpload = 4 << 30

// BringsFiles reports whether the body of a request is a file, or a stream of which nothing is kept.
func BringsFiles(r *http.Request) bool {
	return r.Method == http.MethodPost && (r.URL.Path == filesPath || r.URL.Path == "/process.Process/StreamInput")
}

func isControl(path string) bool {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	if len(parts) > 1 && (parts[0] == "v2" || parts[0] == "v3") {
		parts = parts[1:]
	}
	return slices.Contains(roots, parts[0])
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if port, id, ok := portOf(r.Host, s.cfg.Domain); ok {
		s.servePublic(w, r, id, port)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	if cors(w, r) {
		return
	}
	if r.Header.Get(headerSandbox) != "" || r.URL.Path == filesPath {
		s.serveSandbox(w, r)
		return
	}
	if r.Header.Get("Origin") != "" { // a browser adds the certificate by itself
		r = r.Clone(r.Context())
		r.TLS = nil
	}
	s.control.ServeHTTP(w, withKey(r))
}

// withKey returns a request whose API key stands where other clients have their token. A key that is none of ours is
// refused there.
func withKey(r *http.Request) *http.Request {
	key := r.Header.Get(headerKey)
	if key == "" {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Del(headerKey)
	r.Header["Authorization"] = append(r.Header["Authorization"], "Bearer "+key)
	return r
}

// serveSandbox answers a request to one sandbox, on behalf of whoever was given what it has.
func (s *Server) serveSandbox(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerSandbox)
	if id == "" {
		s.serveSigned(w, r)
		return
	}
	port, err := strconv.Atoi(r.Header.Get(headerPort))
	b := s.find(id)
	if b == nil || !s.lives(b) {
		noSandbox(w, id, port)
		return
	}
	p := b.passOf(r, port)
	switch {
	case err != nil || port < 1 || port > 65535:
		refuse(w, http.StatusBadGateway, headerPort+" is no port")
	case port != daemonPort && port != interpreterPort && p == nil:
		refuse(w, http.StatusUnauthorized, "a port of a sandbox is reached with one of its tokens: send "+headerTraffic)
	default:
		s.serveOne(w, r, b, p, port)
	}
}

// serveSigned answers a request to /files that names no sandbox.
func (s *Server) serveSigned(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	b, p, err := s.findSigned(r, query)
	switch {
	case err != nil:
		identity.AsRefused(err).AnswerBy(w, refuse)
	case b == nil && query.Has("signature"):
		refuse(w, http.StatusUnauthorized, "invalid signature")
	case b == nil:
		refuse(w, http.StatusUnauthorized, "missing signature query parameter")
	case !s.lives(b):
		noSandbox(w, "", daemonPort)
	default:
		s.serveOne(w, r, b, p, daemonPort)
	}
}

// servePublic answers a request to the name of a sandbox's port.
func (s *Server) servePublic(w http.ResponseWriter, r *http.Request, id string, port int) {
	b := s.find(id)
	if b == nil || !s.lives(b) {
		noSandbox(w, id, port)
		return
	}
	p := b.passOf(r, port)
	switch {
	case port == daemonPort || port == interpreterPort:
		w.Header().Set("Cache-Control", "no-store")
		if cors(w, r) {
			return
		}
	case !b.public() && p == nil:
		refuse(w, http.StatusForbidden, "the ports of this sandbox are reached with its token: send "+headerTraffic)
		return
	}
	s.serveOne(w, r, b, p, port)
}

// serveOne answers a request to a port of a sandbox on behalf of whoever a pass was given to, or of nobody.
func (s *Server) serveOne(w http.ResponseWriter, r *http.Request, b *Sandbox, p *pass, port int) {
	ctx, done, err := s.acting(r.Context(), b, p)
	if err != nil {
		identity.AsRefused(err).AnswerBy(w, refuse)
		return
	}
	defer done(nil)
	r = r.WithContext(ctx)
	switch port {
	case interpreterPort:
		s.interpreter(w, r, b, p)
	case daemonPort:
		s.envd.Serve(w, r, b.target(p)) // which checks the token
	default:
		s.envd.ServePort(w, r, b.target(p), port, b.maskedHost(port))
	}
}

// acting returns the context of a request to a sandbox: of the identity that its pass was given to or, without one, of
// nobody, for as long as the maker of the sandbox has credentials.
func (s *Server) acting(ctx context.Context, b *Sandbox, p *pass) (context.Context, context.CancelCauseFunc, error) {
	if p != nil {
		return s.cfg.Identities.Again(ctx, p.Identity)
	}
	owner := b.Owner
	if owner.Source != identity.FromToken { // is renewed under the same name
		owner.Expires = time.Time{}
	}
	ctx, done, holds := s.cfg.Identities.Watch(ctx, owner)
	if !holds {
		done(nil)
		return nil, nil, &door.Refused{Status: http.StatusUnauthorized, Text: "the credentials are not valid", Hint: "sandboxmcp token list shows which tokens there are"}
	}
	return pipeline.ByCaller(identity.With(ctx, identity.Identity{}), pipeline.Caller{By: "public port"}), done, nil
}

// noSandbox answers for a sandbox that there is not, as E2B's proxy does: the SDKs tell by the status that it has
// ended.
func noSandbox(w http.ResponseWriter, id string, port int) {
	door.Reply(w, http.StatusBadGateway, map[string]any{"sandboxId": id, "message": "The sandbox was not found", "port": port, "code": http.StatusBadGateway})
}
