package e2b

import (
	"errors"
	"net/http"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// caller is who asks, and in which namespace new sandboxes of theirs are.
type caller struct {
	identity.Identity
	namespace string
}

// A handler answers a request, or returns why it is refused.
type (
	handler   func(http.ResponseWriter, *http.Request, caller) error
	ofSandbox func(http.ResponseWriter, *http.Request, *Sandbox) error
)

// controlPlane returns the handler of the REST API. Its requests have an identity.
func (s *Server) controlPlane() http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]handler{
		"GET /health": func(w http.ResponseWriter, _ *http.Request, _ caller) error {
			return door.Reply(w, http.StatusNoContent, nil)
		},
		"POST /v2/sandboxes":              s.create,
		"POST /v2/sandboxes/{id}/connect": s.owned(s.connect),
		"POST /sandboxes":                 s.create,
		"GET /sandboxes":                  s.list,
		"GET /v2/sandboxes":               s.list,
		"GET /sandboxes/{id}":             s.owned(s.get),
		"DELETE /sandboxes/{id}":          s.owned(s.kill),
		"POST /sandboxes/{id}/connect":    s.owned(s.connect),
		"POST /sandboxes/{id}/resume":     s.owned(s.connect),
		"POST /sandboxes/{id}/timeout":    s.owned(s.running(s.setTimeout)),
		"PUT /sandboxes/{id}/network":     s.owned(s.running(s.setNetwork)),
		"GET /sandboxes/{id}/metrics":     s.owned(s.metrics),
		"POST /sandboxes/{id}/pause":      s.owned(s.pause),
		"POST /sandboxes/{id}/snapshots":  s.owned(s.running(s.takeSnapshot)),
		"POST /sandboxes/{id}/fork":       s.owned(s.running(s.fork)),
		"GET /snapshots":                  s.listSnapshots,
		"DELETE /templates/{id}":          s.deleteSnapshot,
		"GET /templates/aliases/{id}":     s.getAlias,
		"GET /volumes": func(w http.ResponseWriter, _ *http.Request, _ caller) error {
			return door.Reply(w, http.StatusOK, []int{})
		},
		"/": s.notServed,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			i, _ := identity.From(r.Context())
			namespace := i.Namespace(s.cfg.Namespace)
			err := door.Refuse(http.StatusForbidden, "these credentials do not reach this server's namespace")
			if i.May(namespace) {
				err = f(w, r, caller{i, namespace})
			}
			answerError(w, err)
		})
	}
	return mux
}

// elsewhere are parts of E2B's API that other means of this server are for.
var elsewhere = map[string]string{
	"templates": "templates are the runtimes and images of this server: its operator names them in http.templates of the configuration",
	"volumes":   "this server has no volumes: write files into the sandbox, and read them from there",
	"secrets":   "secrets are added by a person with sandboxmcp vault add, and lent by this server's own API",
	"logs":      "what was done in a sandbox is in this server's log: sandboxmcp audit shows it",
	"teams":     "this server has no teams: a token's namespaces say what it reaches", "nodes": "this server is one machine", "admin": "this server is administered on its command line",
	"api-keys": "a person makes tokens with sandboxmcp token create", "access-tokens": "a person makes tokens with sandboxmcp token create",
}

// notServed answers what there is in E2B's API and not here, and what there is nowhere.
func (s *Server) notServed(w http.ResponseWriter, r *http.Request, _ caller) error {
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if why := elsewhere[part]; why != "" {
			return door.Refuse(http.StatusNotImplemented, why)
		}
	}
	return door.Refuse(http.StatusNotFound, "there is nothing at this path, or not by this method")
}

// running returns a handler of requests about a sandbox that is not paused.
func (s *Server) running(f ofSandbox) ofSandbox {
	return func(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
		if s.paused(b) {
			return door.Refuse(http.StatusConflict, "sandbox "+b.ID+" is paused: connect to it before")
		}
		return f(w, r, b)
	}
}

// owned returns a handler of requests about a sandbox in a namespace of the caller's. There is no other one.
func (s *Server) owned(f ofSandbox) handler {
	return func(w http.ResponseWriter, r *http.Request, c caller) error {
		b := s.visible(r.PathValue("id"), c)
		if b == nil {
			return door.Refuse(http.StatusNotFound, "sandbox "+r.PathValue("id")+" not found")
		}
		return f(w, r, b)
	}
}

// visible returns a living sandbox in a namespace of the caller's, or nil.
func (s *Server) visible(id string, c caller) *Sandbox {
	s.mu.Lock()
	b := s.all[id]
	s.mu.Unlock()
	if b == nil || !s.reaches(c, b.Namespace) || !s.exists(b) {
		return nil
	}
	return b
}

// reaches reports whether a caller may see what is in a namespace.
func (s *Server) reaches(c caller, namespace string) bool {
	return c.May(namespace) && (s.cfg.Namespace == "" || namespace == s.cfg.Namespace)
}

// maxRequest is the most bytes of a request to the control plane.
const maxRequest = 1 << 20

// maxCode is the most bytes of a request to run code.
const maxCode = 16 << 20

// decode reads the JSON of a request into v.
func decode(r *http.Request, v any) error {
	return decodeMost(r, v, maxRequest)
}

// decodeAny reads it if there is any.
func decodeAny(r *http.Request, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return decode(r, v)
}

func decodeMost(r *http.Request, v any, most int64) error {
	return door.ReadJSON(r, v, most, "the request is too large")
}

// answerError answers what a handler refuses, or the pipeline did not do; nil is that it has answered.
func answerError(w http.ResponseWriter, err error) {
	if err == nil {
		return
	}
	if no, is := errors.AsType[*door.Refused](err); is {
		refuse(w, no.Status, no.Text)
		return
	}
	refuse(w, statusOf(err), pipeline.PublicText(err))
}

// statusOf is the status of an answer that says why the pipeline did not do something.
func statusOf(err error) int {
	if errors.Is(err, session.ErrFull) && !errors.Is(err, session.ErrCapacity) {
		return http.StatusTooManyRequests
	}
	return session.StatusOf(err)
}
