// Package envd implements the protocol of E2B's daemon: the SDKs' requests to one sandbox. Processes, files and
// watches are those of a session; each change is an effect of the pipeline.
//
// connectrpc.com/connect 1.21 would save some 60 lines, since messages and errors stay ours, and cost 0.5 MB and five
// packages' inits. It reads and unzips into pooled buffers of up to 8 MB, outside of any budget (pipeline/door).
//
// A sandbox has one unprivileged user. Clients may call it "user", "root" or nothing: it is the same user, and never
// root.
package envd

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// Server serves all sandboxes. Its methods may be called concurrently.
type Server struct {
	pipeline *pipeline.Pipeline

	mu       sync.Mutex
	ended    map[processKey]endedProcess
	watchers map[string]*watcher
	closed   bool
	watching sync.WaitGroup
	life     context.Context // of the watchers
	stop     context.CancelFunc
}

// New returns a server, to be closed.
func New(p *pipeline.Pipeline) *Server {
	s := &Server{pipeline: p, ended: map[processKey]endedProcess{}, watchers: map[string]*watcher{}}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends all watchers and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.watching.Wait()
}

// Target is the sandbox of a request.
type Target struct {
	Namespace, Session string
	Token              string            // that the request must have, of the acting identity; "" admits nobody
	Env                map[string]string // set at the sandbox's creation
}

// methods are the methods of the protocol's services, by path.
var methods = map[string]func(*call) error{
	"/process.Process/List":        unary((*call).listProcesses),
	"/process.Process/Connect":     streaming((*call).connect),
	"/process.Process/Start":       streaming((*call).start),
	"/process.Process/Update":      unary((*call).update),
	"/process.Process/StreamInput": (*call).streamInput,
	"/process.Process/SendInput":   unary((*call).sendInput),
	"/process.Process/SendSignal":  unary((*call).sendSignal),
	"/process.Process/CloseStdin":  unary((*call).closeStdin),

	"/filesystem.Filesystem/Stat":             unary((*call).stat),
	"/filesystem.Filesystem/MakeDir":          unary((*call).makeDir),
	"/filesystem.Filesystem/Move":             unary((*call).move),
	"/filesystem.Filesystem/ListDir":          unary((*call).listDir),
	"/filesystem.Filesystem/Remove":           unary((*call).remove),
	"/filesystem.Filesystem/WatchDir":         streaming((*call).watchDir),
	"/filesystem.Filesystem/CreateWatcher":    unary((*call).createWatcher),
	"/filesystem.Filesystem/GetWatcherEvents": unary((*call).watcherEvents),
	"/filesystem.Filesystem/RemoveWatcher":    unary((*call).removeWatcher),
}

// streaming returns a method that reads one message and sends several.
func streaming[Q any](do func(*call, *Q) error) func(*call) error {
	return func(c *call) error {
		q := new(Q)
		if err := c.receiveOnly(q); err != nil {
			return err
		}
		return do(c, q)
	}
}

// unary returns a method that reads one message and answers with one.
func unary[Q any](do func(*call, *Q) (message any, err error)) func(*call) error {
	return streaming(func(c *call, q *Q) error {
		message, err := do(c, q)
		if err != nil {
			return err
		}
		return c.reply(message)
	})
}

// Serve serves a request to a sandbox. The context must have the identity of the target's token.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, t Target) {
	if err := s.serve(w, r, t); err != nil {
		why, text := explain(err)
		door.Reply(w, why.status, map[string]any{"message": text, "code": why.status})
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, t Target) error {
	switch path := r.Method + " " + r.URL.Path; {
	case path == "GET /health":
		w.WriteHeader(http.StatusNoContent)
	case path == "GET /files":
		return s.download(w, r, t)
	case path == "POST /files":
		return s.upload(w, r, t)
	case !Same(r.Header.Get("X-Access-Token"), t.Token):
		return door.Refuse(http.StatusUnauthorized, "unauthorized access, please provide a valid access token or method signing if supported")
	case path == "GET /envs":
		return door.Reply(w, http.StatusOK, t.Env)
	case methods[r.URL.Path] != nil:
		c := s.openCall(w, r, t)
		if c == nil {
			return nil
		}
		defer c.close()
		if name, _, _ := r.BasicAuth(); !users[name] {
			c.fail(faultf(unauthenticated, "invalid username: '%.64s'", name))
			return nil
		}
		c.endCall(methods[r.URL.Path](c))
	default:
		return door.Refuse(http.StatusNotFound, "unknown path")
	}
	return nil
}

// Same compares a client's token a with the required token b in constant time. It is false if b is "".
func Same(a, b string) bool { return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Signature is the signature in a URL of /files, with the signed text hashed up to the token.
type Signature struct {
	text   string
	hashed map[string]hash.Cloner // up to the token, by operation
	end    string                 // the text after the token
}

// NewSignature returns the signature in a query to /files. It does not check the expiry.
func NewSignature(q url.Values) Signature {
	s := Signature{text: q.Get("signature"), hashed: map[string]hash.Cloner{}}
	for _, operation := range []string{"read", "write"} {
		h := sha256.New()
		io.WriteString(h, q.Get("path")+":"+operation+":"+q.Get("username")+":")
		s.hashed[operation], _ = h.(hash.Cloner) // by its documentation
	}
	if until := q.Get("signature_expiration"); until != "" {
		s.end = ":" + until
	}
	return s
}

// By reports whether a token has made the signature, for any operation.
func (s Signature) By(token string) bool {
	return s.matches("read", token) || s.matches("write", token)
}

func (s Signature) matches(operation, token string) bool {
	h, err := s.hashed[operation].Clone()
	if err != nil || token == "" || s.text == "" {
		return false
	}
	io.WriteString(h, token+s.end)
	return Same(s.text, "v1_"+base64.RawStdEncoding.EncodeToString(h.Sum(nil)))
}

// checkSignature returns why a request for /files is refused, or "".
func (t Target) checkSignature(r *http.Request, operation string) string {
	if token := r.Header.Get("X-Access-Token"); token != "" {
		if !Same(token, t.Token) {
			return "access token present in header but does not match"
		}
		return ""
	}
	q := r.URL.Query()
	if !q.Has("signature") {
		return "missing signature query parameter"
	}
	if !NewSignature(q).matches(operation, t.Token) {
		return "invalid signature"
	}
	until := q.Get("signature_expiration")
	if seconds, err := strconv.ParseInt(until, 10, 64); until != "" && (err != nil || seconds < time.Now().Unix()) {
		return "signature is already expired"
	}
	return ""
}

// users are the names of the sandbox's user.
var users = map[string]bool{"": true, "user": true, "root": true}

// reason is the protocol's code of an error, and its HTTP status.
type reason struct {
	code   code
	status int
}

// reasons maps the agent's errors.
var reasons = map[string]reason{
	guest.NotFound: {notFound, 404}, guest.Exists: {alreadyExists, 400}, guest.NotDirectory: {invalidArgument, 400},
	guest.IsDirectory: {invalidArgument, 400},
	guest.NoSpace:     {resourceExhausted, 507}, guest.Denied: {permissionDenied, 403}, guest.Invalid: {invalidArgument, 400},
	guest.TooMany: {resourceExhausted, 400},
}

// explain returns the reason of an error, and its text for clients, without its remedy.
func explain(err error) (reason, string) {
	text := pipeline.PublicText(err)
	if no, is := errors.AsType[*door.Refused](err); is {
		code := invalidArgument
		if no.Wait > 0 {
			code = unavailable
		}
		return reason{code, no.Status}, no.Text
	}
	if e, is := errors.AsType[*pipeline.Error](err); is && e.Denied {
		text = e.Reason
	}
	why, known := reasons[guest.ReasonOf(err)]
	switch status := session.StatusOf(err); {
	case known:
		return why, text
	case status == http.StatusNotFound:
		return reason{unavailable, http.StatusBadGateway}, "the sandbox has ended"
	case status == http.StatusServiceUnavailable:
		return reason{unavailable, status}, text
	case status == http.StatusBadRequest:
		return reason{invalidArgument, status}, text
	}
	if no, is := errors.AsType[*backends.NoProgram](err); is {
		return reason{invalidArgument, http.StatusBadRequest}, no.Error()
	}
	return reason{internal, http.StatusInternalServerError}, text
}

// faultOf converts an error to a fault.
func (c *call) faultOf(err error) *fault {
	if f, is := errors.AsType[*fault](err); is {
		return f
	}
	if c.ctx.Err() != nil {
		return c.contextFault()
	}
	why, text := explain(err)
	return &fault{why.code, text}
}
