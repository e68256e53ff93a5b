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

// caller is the sender of a request, with the namespace of its new sandboxes.
type caller struct {
	identity.Identity
	namespace string
}

// A handler answers a request or returns the reason for refusing it.
type (
	handler        func(http.ResponseWriter, *http.Request, caller) error
	sandboxHandler func(http.ResponseWriter, *http.Request, *Sandbox) error
)

// controlPlane returns the handler of the REST API. The context of each request must have an identity.
func (s *Server) controlPlane() http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]handler{
		"GET /health": func(w http.ResponseWriter, _ *http.Request, _ caller) error {
			return door.Reply(w, http.StatusNoContent, nil)
		},
		"POST /v2/sandboxes":              s.create,
		"POST /v2/sandboxes/{id}/connect": s.withSandbox(s.connect),
		"POST /sandboxes":                 s.create,
		"GET /sandboxes":                  s.listSandboxes,
		"GET /v2/sandboxes":               s.listSandboxes,
		"GET /sandboxes/{id}":             s.withSandbox(s.getSandbox),
		"DELETE /sandboxes/{id}":          s.withSandbox(s.kill),
		"POST /sandboxes/{id}/connect":    s.withSandbox(s.connect),
		"POST /sandboxes/{id}/resume":     s.withSandbox(s.connect),
		"POST /sandboxes/{id}/timeout":    s.withSandbox(s.whileRunning(s.setTimeout)),
		"PUT /sandboxes/{id}/network":     s.withSandbox(s.whileRunning(s.setNetwork)),
		"GET /sandboxes/{id}/metrics":     s.withSandbox(s.metrics),
		"POST /sandboxes/{id}/pause":      s.withSandbox(s.pause),
		"POST /sandboxes/{id}/snapshots":  s.withSandbox(s.whileRunning(s.takeSnapshot)),
		"POST /sandboxes/{id}/fork":       s.withSandbox(s.whileRunning(s.fork)),
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
			err := door.Refuse(http.StatusForbidden, "these credentials do not allow this server's namespace")
			if i.May(namespace) {
				err = f(w, r, caller{i, namespace})
			}
			answerError(w, err)
		})
	}
	return mux
}

// unsupported has the reason for each part of E2B's API that another part of sandboxmcp replaces.
var unsupported = map[string]string{
	"templates": "templates can't be built here: the operator defines them in http.templates of the configuration",
	"volumes":   "volumes are not supported: write files into the sandbox and read them from there",
	"secrets":   "secrets are not supported: a person adds them with sandboxmcp vault add, for use with sandboxmcp's own API",
	"logs":      "logs are not supported: sandboxmcp audit shows the audit log",
	"teams":     "teams are not supported: a token has namespaces instead",
	"nodes":     "nodes are not supported: this server is a single machine", "admin": "administration is on the command line only",
	"api-keys":      "a person creates tokens with sandboxmcp token create",
	"access-tokens": "a person creates tokens with sandboxmcp token create",
}

// notServed refuses unsupported and unknown paths.
func (s *Server) notServed(w http.ResponseWriter, r *http.Request, _ caller) error {
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if why := unsupported[part]; why != "" {
			return door.Refuse(http.StatusNotImplemented, why)
		}
	}
	return door.Refuse(http.StatusNotFound, "unknown path or method")
}

// whileRunning returns a handler that refuses requests about a paused sandbox.
func (s *Server) whileRunning(f sandboxHandler) sandboxHandler {
	return func(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
		if s.isPaused(b) {
			return door.Refuse(http.StatusConflict, "sandbox "+b.ID+" is paused: connect to it first")
		}
		return f(w, r, b)
	}
}

// withSandbox returns a handler of requests about a sandbox in the caller's namespaces. Other sandboxes are unknown.
func (s *Server) withSandbox(f sandboxHandler) handler {
	return func(w http.ResponseWriter, r *http.Request, c caller) error {
		b := s.visible(r.PathValue("id"), c)
		if b == nil {
			return door.Refuse(http.StatusNotFound, "sandbox "+r.PathValue("id")+" not found")
		}
		return f(w, r, b)
	}
}

// visible returns a living sandbox in the caller's namespaces, or nil.
func (s *Server) visible(id string, c caller) *Sandbox {
	s.mu.Lock()
	b := s.all[id]
	s.mu.Unlock()
	if b == nil || !s.canSee(c, b.Namespace) || !s.exists(b) {
		return nil
	}
	return b
}

// canSee reports whether a caller may see a namespace.
func (s *Server) canSee(c caller, namespace string) bool {
	return c.May(namespace) && (s.cfg.Namespace == "" || namespace == s.cfg.Namespace)
}

// maxRequest bounds a request to the control plane, in bytes.
const maxRequest = 1 << 20

// maxCode bounds a request to run code, in bytes.
const maxCode = 16 << 20

// decode decodes the JSON body of a request into v.
func decode(r *http.Request, v any) error {
	return decodeAtMost(r, v, maxRequest)
}

// decodeOptional decodes the body if there is one.
func decodeOptional(r *http.Request, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return decode(r, v)
}

func decodeAtMost(r *http.Request, v any, most int64) error {
	return door.ReadJSON(r, v, most, "the request is too large")
}

// answerError answers a refused or failed request. A nil error is already answered.
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

// statusOf returns the HTTP status for an error of the pipeline.
func statusOf(err error) int {
	if errors.Is(err, session.ErrFull) && !errors.Is(err, session.ErrCapacity) {
		return http.StatusTooManyRequests
	}
	return session.StatusOf(err)
}
