// Package e2b serves the pipeline over E2B's protocol, so that its official SDKs work unchanged: the REST API that
// creates and ends sandboxes (the control plane), and the daemon (envd) and code interpreter of each sandbox.
//
// A sandbox is a session of the pipeline, with the session's id. Each identity that may use it gets two tokens, valid
// for this sandbox and this identity only. Requests with them act as that identity, and they expire with its
// credentials.
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

// Config has the parts of a server.
type Config struct {
	Pipeline   *pipeline.Pipeline
	Identities *identity.Checker
	// Namespace is the only namespace that callers may use. With "", each caller uses its first one.
	Namespace string
	Templates map[string]Template // added to the builtin ones, or replacing them
	// ports of sandboxes are at PORT-ID.Domain, for everyone who knows the name unless the owner requires a token; "" publishes none
	Domain string
	Wall   time.Duration // maximum run time of code; 0 is the default of runs
}

// Server serves E2B's SDKs. Its methods may be called concurrently.
type Server struct {
	cfg     Config
	envd    *envd.Server
	control http.Handler // after authentication
	key     []byte       // derives the tokens of sandboxes

	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	all       map[string]*Sandbox // by id
	snapshots []*snapshot         // oldest first
}

// New returns a server, to be closed.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, envd: envd.New(cfg.Pipeline), all: map[string]*Sandbox{}, key: make([]byte, sha256.Size)}
	rand.Read(s.key) // never fails
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.measureAll(ctx) })
	s.control = cfg.Identities.MiddlewareWith(s.controlPlane(), refuse)
	return s
}

// Close stops the server's own goroutines. The sandboxes belong to the pipeline.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
	s.envd.Close()
}

// Headers in which an SDK names a sandbox and its port, and sends its tokens.
const (
	headerKey     = "X-Api-Key"
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
	headerAccess  = "X-Access-Token"
	headerTraffic = "E2b-Traffic-Access-Token"
)

// Ports at which E2B's own programs answer. All other ports belong to programs of the sandbox.
const (
	daemonPort      = 49983
	interpreterPort = 49999
)

// filesPath is the daemon's path for files. In URLs signed by an SDK it comes without headers.
const filesPath = "/files"

// roots are the first elements of the control plane's paths, without a version.
var roots = []string{"sandboxes", "templates", "snapshots", "volumes", "secrets", "teams", "nodes", "admin", "api-keys", "access-tokens",
	"health"}

// Owns reports whether a request belongs to E2B's protocol or to a sandbox's port.
func (s *Server) Owns(r *http.Request) bool {
	return OfPort(r.Host, s.cfg.Domain) || belongsToE2B(r)
}

func belongsToE2B(r *http.Request) bool {
	return r.Header.Get(headerSandbox) != "" || r.URL.Path == filesPath || isControl(r.URL.Path)
}

// MaxUpload bounds the file in one request, in bytes.
const MaxUpload = 4 << 30

// BringsFiles reports whether the body of a request is a file, or a stream that is not buffered.
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

// ServeHTTP serves one request.
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
	if r.Header.Get("Origin") != "" { // browsers send client certificates by themselves
		r = r.Clone(r.Context())
		r.TLS = nil
	}
	s.control.ServeHTTP(w, withKey(r))
}

// withKey returns a request with its API key in Authorization. The identity check refuses invalid keys.
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

// serveSandbox serves a request with a sandbox's token.
func (s *Server) serveSandbox(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerSandbox)
	if id == "" {
		s.serveSigned(w, r)
		return
	}
	port, err := strconv.Atoi(r.Header.Get(headerPort))
	b := s.lookup(id)
	if b == nil || !s.hasSession(b) {
		noSandbox(w, id, port)
		return
	}
	p := b.passOf(r, port)
	switch {
	case err != nil || port < 1 || port > 65535:
		refuse(w, http.StatusBadGateway, headerPort+" is not a port")
	case port != daemonPort && port != interpreterPort && p == nil:
		refuse(w, http.StatusUnauthorized, "a sandbox's port needs one of its tokens: send "+headerTraffic)
	default:
		s.serveWithPass(w, r, b, p, port)
	}
}

// serveSigned serves a request to /files that names no sandbox.
func (s *Server) serveSigned(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	b, p, err := s.findSigned(r, query)
	switch {
	case err != nil:
		identity.AsRefused(err).WriteWith(w, refuse)
	case b == nil && query.Has("signature"):
		refuse(w, http.StatusUnauthorized, "invalid signature")
	case b == nil:
		refuse(w, http.StatusUnauthorized, "missing signature query parameter")
	case !s.hasSession(b):
		noSandbox(w, "", daemonPort)
	default:
		s.serveWithPass(w, r, b, p, daemonPort)
	}
}

// servePublic serves a request to the host name of a sandbox's port.
func (s *Server) servePublic(w http.ResponseWriter, r *http.Request, id string, port int) {
	b := s.lookup(id)
	if b == nil || !s.hasSession(b) {
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
	case !b.isPublic() && p == nil:
		refuse(w, http.StatusForbidden, "this sandbox's ports need its token: send "+headerTraffic)
		return
	}
	s.serveWithPass(w, r, b, p, port)
}

// serveWithPass serves a request to a port of a sandbox, as the identity of the pass or, without one, anonymously.
func (s *Server) serveWithPass(w http.ResponseWriter, r *http.Request, b *Sandbox, p *pass, port int) {
	ctx, done, err := s.contextOf(r.Context(), b, p)
	if err != nil {
		identity.AsRefused(err).WriteWith(w, refuse)
		return
	}
	defer done(nil)
	r = r.WithContext(ctx)
	switch port {
	case interpreterPort:
		s.serveInterpreter(w, r, b, p)
	case daemonPort:
		s.envd.Serve(w, r, b.target(p)) // which checks the token
	default:
		s.envd.ServePort(w, r, b.target(p), port, b.maskedHost(port))
	}
}

// contextOf returns the context of a request to a sandbox. It has the identity of the pass or, without one, none, and
// ends with the credentials of the sandbox's owner.
func (s *Server) contextOf(ctx context.Context, b *Sandbox, p *pass) (context.Context, context.CancelCauseFunc, error) {
	if p != nil {
		return s.cfg.Identities.Reidentify(ctx, p.Identity)
	}
	owner := b.Owner
	if owner.Source != identity.FromToken { // other credentials are renewed under the same name
		owner.Expires = time.Time{}
	}
	ctx, done, holds := s.cfg.Identities.Watch(ctx, owner)
	if !holds {
		done(nil)
		return nil, nil, &door.Refused{Status: http.StatusUnauthorized, Text: "the credentials are not valid",
			Hint: "sandboxmcp token list lists the tokens"}
	}
	return pipeline.WithCaller(identity.With(ctx, identity.Identity{}), pipeline.Caller{By: "public port"}), done, nil
}

// noSandbox answers as E2B's proxy does for an unknown sandbox: the SDKs conclude from the status that it has ended.
func noSandbox(w http.ResponseWriter, id string, port int) {
	door.Reply(w, http.StatusBadGateway, map[string]any{"sandboxId": id, "message": "The sandbox was not found", "port": port,
		"code": http.StatusBadGateway})
}
