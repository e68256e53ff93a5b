package e2b

import (
	"errors"
	"net/http"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// caller is who asks, and in which namespace new sandboxes of theirs are.
type caller struct {
	identity.Identity
	namespace string
}

// controlPlane returns the handler of the REST API. Its requests have an identity.
func (s *Server) controlPlane() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(http.ResponseWriter, *http.Request, caller)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			i, _ := identity.From(r.Context())
			c := caller{i, s.cfg.Namespace}
			if c.namespace == "" && len(i.Namespaces) > 0 {
				c.namespace = i.Namespaces[0]
			}
			if c.namespace == "" {
				c.namespace = "default"
			}
			if !i.May(c.namespace) {
				refuse(w, http.StatusForbidden, "these credentials do not reach this server's namespace")
				return
			}
			f(w, r, c)
		})
	}
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request, caller){
		"GET /health":                     func(w http.ResponseWriter, _ *http.Request, _ caller) { w.WriteHeader(http.StatusNoContent) },
		"POST /v2/sandboxes":              s.create,
		"POST /v2/sandboxes/{id}/connect": s.owned(s.connect),
		"POST /sandboxes":                 s.create,
		"GET /sandboxes":                  s.list,
		"GET /v2/sandboxes":               s.list,
		"GET /sandboxes/metrics":          s.allMetrics,
		"GET /sandboxes/{id}":             s.owned(s.get),
		"DELETE /sandboxes/{id}":          s.owned(s.kill),
		"POST /sandboxes/{id}/connect":    s.owned(s.connect),
		"POST /sandboxes/{id}/resume":     s.owned(s.connect),
		"POST /sandboxes/{id}/timeout":    s.owned(s.running(s.setTimeout)),
		"POST /sandboxes/{id}/refreshes":  s.owned(s.running(s.refresh)),
		"PUT /sandboxes/{id}/network":     s.owned(s.running(s.setNetwork)),
		"GET /sandboxes/{id}/metrics":     s.owned(s.metrics),
		"GET /sandboxes/{id}/logs":        s.owned(s.logs),
		"GET /v2/sandboxes/{id}/logs":     s.owned(s.logsV2),
		"POST /sandboxes/{id}/pause":      s.owned(s.pause),
		"POST /sandboxes/{id}/snapshots":  s.owned(s.running(s.takeSnapshot)),
		"POST /sandboxes/{id}/fork":       s.owned(s.running(s.fork)),
		"GET /snapshots":                  s.listSnapshots,
		"DELETE /templates/{id}":          s.deleteSnapshot,
		"GET /templates":                  s.listTemplates,
		"GET /v2/templates":               s.listTemplates,
		"GET /templates/{id}":             s.getTemplate,
		"GET /templates/aliases/{id}":     s.getAlias,
		"GET /volumes":                    func(w http.ResponseWriter, _ *http.Request, _ caller) { operation.Reply(w, http.StatusOK, []int{}) },
		"/":                               s.notServed,
	} {
		handle(pattern, f)
	}
	return mux
}

// elsewhere are parts of E2B's API that other means of this server are for.
var elsewhere = map[string]string{
	"templates": "templates are the runtimes and images of this server: its operator names them in http.templates of the configuration",
	"volumes":   "this server has no volumes: write files into the sandbox, and read them from there",
	"secrets":   "secrets are added by a person with sandboxmcp vault add, and lent by this server's own API",
	"teams":     "this server has no teams: a token's namespaces say what it reaches", "nodes": "this server is one machine", "admin": "this server is administered on its command line",
	"api-keys": "a person makes tokens with sandboxmcp token create", "access-tokens": "a person makes tokens with sandboxmcp token create",
}

// notServed answers what there is in E2B's API and not here, and what there is nowhere.
func (s *Server) notServed(w http.ResponseWriter, r *http.Request, _ caller) {
	for part := range strings.SplitSeq(r.URL.Path, "/") {
		if why := elsewhere[part]; why != "" {
			refuse(w, http.StatusNotImplemented, why)
			return
		}
	}
	refuse(w, http.StatusNotFound, "there is nothing at this path, or not by this method")
}

// running returns a handler of requests about a sandbox that is not paused.
func (s *Server) running(f func(http.ResponseWriter, *http.Request, *Sandbox)) func(http.ResponseWriter, *http.Request, *Sandbox) {
	return func(w http.ResponseWriter, r *http.Request, b *Sandbox) {
		if s.paused(b) {
			refuse(w, http.StatusConflict, "sandbox "+b.ID+" is paused: connect to it before")
			return
		}
		f(w, r, b)
	}
}

// owned returns a handler of requests about a sandbox in a namespace of the caller's. There is no other one.
func (s *Server) owned(f func(http.ResponseWriter, *http.Request, *Sandbox)) func(http.ResponseWriter, *http.Request, caller) {
	return func(w http.ResponseWriter, r *http.Request, c caller) {
		b := s.visible(r.PathValue("id"), c)
		if b == nil {
			refuse(w, http.StatusNotFound, "sandbox "+r.PathValue("id")+" not found")
			return
		}
		f(w, r, b)
	}
}

// visible returns a living sandbox in a namespace of the caller's, or nil.
func (s *Server) visible(id string, c caller) *Sandbox {
	s.mu.Lock()
	b := s.all[id]
	s.mu.Unlock()
	if b == nil || !c.May(b.Namespace) || s.cfg.Namespace != "" && b.Namespace != s.cfg.Namespace || !s.exists(b) {
		return nil
	}
	return b
}

// maxRequest is the most bytes of a request to the control plane.
const maxRequest = 1 << 20

// maxCode is the most bytes of a request to run code.
const maxCode = 16 << 20

// decode reads the JSON of a request into v, and answers what can't be read.
func decode(w http.ResponseWriter, r *http.Request, v any) bool {
	return decodeMost(w, r, v, maxRequest)
}

func decodeMost(w http.ResponseWriter, r *http.Request, v any, most int64) bool {
	status, wrong := operation.ReadJSON(w, r, v, most)
	if status != 0 {
		refuse(w, status, wrong)
	}
	return status == 0
}

// refusePipeline answers why the pipeline did not do something.
func refusePipeline(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	refuse(w, status, pipeline.PublicText(err))
}

// statusOf is the status of an answer that says why the pipeline did not do something.
func statusOf(err error) int {
	e, is := errors.AsType[*pipeline.Error](err)
	switch {
	case errors.Is(err, session.ErrCapacity), errors.Is(err, pipeline.ErrBusy):
		return http.StatusServiceUnavailable
	case errors.Is(err, session.ErrFull):
		return http.StatusTooManyRequests
	case errors.Is(err, session.ErrUnknown), errors.Is(err, session.ErrDead):
		return http.StatusNotFound
	case is && e.Denied:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
