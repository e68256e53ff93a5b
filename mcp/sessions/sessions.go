// Package sessions serves the pipeline as plain HTTP sessions at /sessions: created, used by three tools, and ended.
// A tool's answer has the format of the result blocks of Anthropic's code_execution_20250825, so that a model trained
// with that tool can read it.
package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/install"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Config has the parts of a server.
type Config struct {
	Pipeline  *pipeline.Pipeline
	Namespace string // the only namespace that callers may use; with "", each uses its first one
}

// Server serves requests to /sessions, whose context must have an identity. Its methods may be called concurrently.
type Server struct {
	cfg Config
	mux *http.ServeMux

	mu  sync.Mutex
	all map[string]*state // by session id
}

// state is this API's record of a session.
type state struct {
	namespace string
	shell     sync.Mutex // held while its shell starts
	hasShell  bool
	edits     edits
	execs     map[string]*exec // with access to the client's functions, by id; guarded by the server's mutex

	mu    sync.Mutex
	calls map[string]call // by the id of the job that each has started
}

// Root is the path of this API.
const Root = "/sessions"

// New returns a server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, mux: http.NewServeMux(), all: map[string]*state{}}
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST " + Root:                               s.create,
		"GET " + Root:                                s.listSessions,
		"DELETE " + Root + "/{id}":                   s.endSession,
		"GET " + Root + "/{id}":                      s.withSession(s.getSession),
		"POST " + Root + "/{id}/exec":                s.withSession(s.exec),
		"POST " + Root + "/{id}/exec/{exec}/results": s.withSession(s.results),
		"POST " + Root + "/{id}/files":               s.withSession(s.upload),
		"GET " + Root + "/{id}/files":                s.withSession(s.download),
		"GET " + Root + "/{id}/files/list":           s.withSession(s.listFiles),
		"GET " + Root + "/{id}/files/tar":            s.withSession(s.sendTar),
		"PUT " + Root + "/{id}/files/tar":            s.withSession(s.receiveTar),
		"POST " + Root + "/{id}/copy":                s.withSession(s.copyExport),
		"GET " + Root + "/{id}/jobs":                 s.withSession(s.listJobs),
		"GET " + Root + "/{id}/jobs/{job}":           s.withSession(s.getJob),
		"DELETE " + Root + "/{id}/jobs/{job}":        s.withSession(s.endJob),
		"/": func(http.ResponseWriter, *http.Request) error {
			return door.Refuse(http.StatusNotFound, "unknown path or method")
		},
	} {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				status, text := explain(err)
				Refuse(w, status, text)
			}
		})
	}
	return s
}

// Owns reports whether a request belongs to this API.
func Owns(r *http.Request) bool {
	return r.URL.Path == Root || strings.HasPrefix(r.URL.Path, Root+"/")
}

// BringsFiles reports whether the body of a request has files.
func BringsFiles(r *http.Request) bool {
	return Owns(r) && (r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/files") || r.Method == http.MethodPut &&
		strings.HasSuffix(r.URL.Path, "/files/tar"))
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	s.mux.ServeHTTP(w, r)
}

// withSession returns a handler of requests about a living session, created by this API in one of the caller's
// namespaces. Other sessions are unknown.
func (s *Server) withSession(f func(http.ResponseWriter, *http.Request, *state) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		st := s.visible(r)
		if st == nil {
			return door.Refuse(http.StatusNotFound, s.whyGone(r))
		}
		return f(w, r, st)
	}
}

// visible returns the living session that a request names, or nil if it is unknown to the caller.
func (s *Server) visible(r *http.Request) *state {
	id := r.PathValue("id")
	i, known := identity.From(r.Context())
	s.mu.Lock()
	st := s.all[id]
	s.mu.Unlock()
	if st == nil || !known || !i.May(st.namespace) {
		return nil
	}
	if info, err := session.InfoOf(s.cfg.Pipeline, st.namespace, id); err != nil || info.State == "dead" {
		s.forget(id)
		return nil
	}
	return st
}

// whyGone returns why a session is unknown; if it was the caller's, why it has ended.
func (s *Server) whyGone(r *http.Request) string {
	i, _ := identity.From(r.Context())
	for _, namespace := range append([]string{s.cfg.Namespace}, i.Namespaces.Names()...) {
		if namespace == "" || !i.May(namespace) {
			continue
		}
		if info, err := session.InfoOf(s.cfg.Pipeline, namespace, r.PathValue("id")); err == nil && info.Ended != "" {
			return "the session has ended: " + session.Reason(info.Ended)
		}
		if past, known := s.cfg.Pipeline.FindPast(r.Context(), namespace, r.PathValue("id")); known && past.Session {
			return "the session has ended: " + session.Reason(past.Ended)
		}
	}
	return "session not found"
}

func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

// dropEnded removes sessions that have ended by themselves.
func (s *Server) dropEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, st := range s.all {
		if info, err := session.InfoOf(s.cfg.Pipeline, st.namespace, id); err != nil || info.State == "dead" {
			delete(s.all, id)
		}
	}
}

// newSession is the body of a request for a session.
type newSession struct {
	Idle     float64   `json:"idle_timeout_seconds"`
	Lifetime float64   `json:"max_lifetime_seconds"`
	Language string    `json:"language"`
	Packages []string  `json:"packages"`
	GitName  string    `json:"git_name"`
	GitEmail string    `json:"git_email"`
	Data     []string  `json:"data"`
	Project  string    `json:"workspace"` // one of the operator's
	Tools    []newTool `json:"tools"`
	ToolTime float64   `json:"tool_timeout_seconds"` // for each call
}

// described is a session in the API's format.
type described struct {
	ID       string    `json:"id"`
	State    string    `json:"state"`
	Language string    `json:"language"`
	Created  time.Time `json:"created_at"`
	Used     time.Time `json:"last_used_at"`
	Expires  time.Time `json:"expires_at"`
	Idle     float64   `json:"idle_timeout_seconds"`
	Lifetime float64   `json:"max_lifetime_seconds"`
	Packages []string  `json:"packages,omitempty"`
	Tools    []string  `json:"tools,omitempty"`
}

func describe(i session.Info) described {
	return described{ID: i.ID, State: i.State, Language: i.Language, Created: i.Created, Used: i.Used,
		Expires: i.Created.Add(seconds(i.Lifetime)), Idle: i.Idle, Lifetime: i.Lifetime, Tools: i.Tools}
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// create creates a session with its packages.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	i, known := identity.From(r.Context())
	namespace := i.Namespace(s.cfg.Namespace)
	if !known || !i.May(namespace) {
		return door.Refuse(http.StatusForbidden, "these credentials do not allow this namespace")
	}
	var q newSession
	if r.ContentLength != 0 {
		if err := decode(r, &q); err != nil {
			return err
		}
	}
	const longest = 366 * 24 * 3600.0 // fits into a duration; the operator's bounds are lower
	if !(q.Idle >= 0 && q.Idle <= longest && q.Lifetime >= 0 && q.Lifetime <= longest && q.ToolTime >= 0 && q.ToolTime <= longest) {
		return door.Refuse(http.StatusBadRequest, "idle_timeout_seconds, max_lifetime_seconds and tool_timeout_seconds must be 0 or more")
	}
	s.dropEnded()
	info, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, session.New{Namespace: namespace, Language: cmp.Or(q.Language, "python"),
		Idle: seconds(q.Idle), Lifetime: seconds(q.Lifetime), Guest: true, Git: pipeline.GitIdentity{Name: q.GitName, Email: q.GitEmail},
		Data: q.Data, Project: q.Project, Tools: toolsOf(q.Tools), ToolTimeout: seconds(q.ToolTime)})
	if err != nil {
		return err
	}
	if len(q.Packages) > 0 {
		_, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, install.Request{
			Namespace: namespace, Session: info.ID, Language: info.Language, Packages: q.Packages,
		})
		if err != nil {
			_, _, _ = pipeline.Do(context.WithoutCancel(r.Context()), s.cfg.Pipeline, session.End{
				Namespace: namespace, Session: info.ID,
			})
			return err
		}
	}
	s.mu.Lock()
	s.all[info.ID] = &state{namespace: namespace, execs: map[string]*exec{}}
	s.mu.Unlock()
	made := describe(info)
	made.Packages = q.Packages
	w.Header().Set("Location", Root+"/"+info.ID)
	return door.Reply(w, http.StatusCreated, made)
}

// listSessions answers with the caller's living sessions, in order of creation.
func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	i, known := identity.From(r.Context())
	s.dropEnded()
	s.mu.Lock()
	all := maps.Clone(s.all)
	s.mu.Unlock()
	list := []described{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		info, err := session.InfoOf(s.cfg.Pipeline, all[id].namespace, id)
		if known && i.May(all[id].namespace) && err == nil {
			list = append(list, describe(info))
		}
	}
	return door.Reply(w, http.StatusOK, map[string]any{"sessions": list})
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request, st *state) error {
	info, err := session.InfoOf(s.cfg.Pipeline, st.namespace, r.PathValue("id"))
	if err != nil {
		return err
	}
	return door.Reply(w, http.StatusOK, describe(info))
}

// endSession ends a session. It succeeds for ended and unknown sessions, too.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request) error {
	if st := s.visible(r); st != nil {
		id := r.PathValue("id")
		_, res, err := pipeline.Do(context.WithoutCancel(r.Context()), s.cfg.Pipeline, session.End{
			Namespace: st.namespace, Session: id,
		})
		if err != nil && s.visible(r) != nil {
			return err
		}
		s.forget(id)
		door.Warn(w, res.LateRowWarning())
	}
	return door.Reply(w, http.StatusNoContent, nil)
}

// fault is the body of a refused request.
type fault struct {
	Type  string `json:"type"` // "error"
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// kinds are the error types of Anthropic's API, by HTTP status.
var kinds = map[int]string{
	http.StatusBadRequest: "invalid_request_error", http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
	http.StatusUnauthorized: "authentication_error", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusServiceUnavailable: "overloaded_error",
	http.StatusUnsupportedMediaType: "invalid_request_error",
}

func faultOf(status int, message string) fault {
	f := fault{Type: "error"}
	f.Error.Type, f.Error.Message = cmp.Or(kinds[status], "api_error"), message
	return f
}

// Refuse answers a refused request.
func Refuse(w http.ResponseWriter, status int, message string) {
	door.Reply(w, status, faultOf(status, message))
}

// explain returns the status and the text for an error.
func explain(err error) (status int, text string) {
	no, refused := errors.AsType[*door.Refused](err)
	switch reason := guest.ReasonOf(err); {
	case refused:
		return no.Status, no.Text
	case errors.As(err, new(*http.MaxBytesError)):
		return http.StatusRequestEntityTooLarge, tooLarge
	case reason == guest.NotFound:
		return http.StatusNotFound, err.Error()
	case errors.As(err, new(*problem)), reason != "":
		return http.StatusBadRequest, err.Error()
	}
	return session.StatusOf(err), pipeline.PublicText(err)
}

// maxRequest bounds a request's JSON, in bytes: it may contain a file.
const maxRequest = 16 << 20

// decode decodes the JSON body of a request into v.
func decode(r *http.Request, v any) error {
	return door.ReadJSON(r, v, maxRequest, fmt.Sprintf("the request is too large: the maximum is %d bytes; send files to %s/ID/files",
		maxRequest, Root))
}
