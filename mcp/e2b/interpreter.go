package e2b

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// codeContext is an interpreter of a sandbox in the SDKs' view. Its mutex guards its state.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`

	mu    sync.Mutex
	runs  int  // number of executions
	ready bool // the interpreter is started
}

// homeDir is the working directory of a sandbox's programs.
const homeDir = "/home/user"

// languages are E2B's languages by all of their names. Java and others are not supported.
var languages = map[string]string{
	"": "python", "python": "python", "python3": "python", "javascript": "javascript", "js": "javascript", "node": "javascript",
	"typescript": "typescript", "ts": "typescript", "bash": "bash", "sh": "bash", "shell": "bash", "r": "r",
}

// language returns a language by name: E2B's, or one from the configuration.
func (s *Server) language(name string) (language string, known bool) {
	if own := containment.OtherLanguage(s.cfg.Pipeline, name, ""); own != "" {
		return own, true
	}
	language, known = languages[strings.ToLower(name)]
	return language, known
}

// kernelOf returns the language of the interpreter for a language.
func kernelOf(language string) string {
	switch language {
	case "javascript", "typescript":
		return "node"
	case "bash":
		return "shell"
	}
	return language
}

// serveInterpreter serves a sandbox's code interpreter.
func (s *Server) serveInterpreter(w http.ResponseWriter, r *http.Request, b *Sandbox, p *pass) {
	if r.URL.Path == "/health" {
		w.WriteHeader(http.StatusOK)
		return
	}
	if p == nil {
		refuse(w, http.StatusForbidden, "the access token is missing, or not valid for this sandbox")
		return
	}
	answerError(w, s.interpret(w, r, b))
}

func (s *Server) interpret(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	id, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/contexts/"), "/")
	switch path := r.Method + " " + r.URL.Path; {
	case path == "POST /execute":
		return s.execute(w, r, b)
	case strings.HasPrefix(path, "GET /contexts"):
		return door.Reply(w, http.StatusOK, b.listContexts())
	case path == "POST /contexts":
		return s.newContext(w, r, b)
	case strings.HasPrefix(path, "POST /contexts") && action == "restart":
		return s.restartContext(w, r, b, id)
	case strings.HasPrefix(path, "DELETE /contexts") && action == "":
		return s.endContext(w, r, b, id)
	}
	return door.Refuse(http.StatusNotFound, "unknown path or method")
}

// newContexts returns the initial contexts of a sandbox, whose interpreters start at first use.
func newContexts() (all []*codeContext) {
	for _, language := range []string{"python", "javascript"} {
		all = append(all, &codeContext{ID: language, Language: language, Dir: homeDir})
	}
	return all
}

// contextOf returns the context with an id, or nil.
func (b *Sandbox) contextOf(id string) *codeContext {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookup(id)
}

// contextFor returns the default context of a language, and creates it at first use.
func (b *Sandbox) contextFor(language string) *codeContext {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.lookup(language)
	if c == nil {
		c = &codeContext{ID: language, Language: language, Dir: homeDir}
		b.contexts = append(b.contexts, c)
	}
	return c
}

// lookup returns the context with an id, or nil. The mutex is held.
func (b *Sandbox) lookup(id string) *codeContext {
	if i := slices.IndexFunc(b.contexts, func(c *codeContext) bool { return c.ID == id }); i >= 0 {
		return b.contexts[i]
	}
	return nil
}

func (b *Sandbox) listContexts() []*codeContext {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.contexts)
}

func (b *Sandbox) forgetContext(c *codeContext) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contexts = slices.DeleteFunc(b.contexts, func(other *codeContext) bool { return other == c })
}

// startContext starts the interpreter of a context, once.
func (s *Server) startContext(r *http.Request, b *Sandbox, c *codeContext) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready {
		return nil
	}
	_, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, session.NewContext{
		Namespace: b.Namespace, Session: b.session(), ID: c.ID, Language: kernelOf(c.Language), Dir: c.Dir,
	})
	c.ready = err == nil
	return err
}

// newContext creates a context and starts it.
func (s *Server) newContext(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	var q struct{ Language, Cwd string }
	if err := decode(r, &q); err != nil {
		return err
	}
	language, ok := s.language(q.Language)
	if !ok {
		return door.Refuse(http.StatusBadRequest, "unknown language "+clip(q.Language)+": use python, javascript, typescript, bash or r")
	}
	c := &codeContext{ID: strings.ToLower(rand.Text()), Language: language, Dir: cmp.Or(q.Cwd, homeDir)}
	if err := s.startContext(r, b, c); err != nil {
		return err
	}
	b.mu.Lock()
	b.contexts = append(b.contexts, c)
	b.mu.Unlock()
	return door.Reply(w, http.StatusOK, c)
}

func (s *Server) restartContext(w http.ResponseWriter, r *http.Request, b *Sandbox, id string) error {
	c := b.contextOf(id)
	if c == nil {
		return noContext(id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = 0
	return s.changeContext(w, r, c, http.StatusOK, session.EndContext{Namespace: b.Namespace, Session: b.session(), Context: id,
		Restart: true})
}

func (s *Server) endContext(w http.ResponseWriter, r *http.Request, b *Sandbox, id string) error {
	c := b.contextOf(id)
	if c == nil {
		return noContext(id)
	}
	b.forgetContext(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.changeContext(w, r, c, http.StatusNoContent, session.EndContext{Namespace: b.Namespace, Session: b.session(), Context: id})
}

// changeContext ends or restarts a context, if it is started, and answers. The context's mutex is held.
func (s *Server) changeContext(w http.ResponseWriter, r *http.Request, c *codeContext, status int, e session.EndContext) error {
	if c.ready {
		if _, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, e); err != nil {
			return err
		}
	}
	return door.Reply(w, status, nil)
}

func noContext(id string) error {
	return door.Refuse(http.StatusNotFound, "context "+clip(id)+" not found")
}

// clip shortens text of a caller for an error message.
func clip(text string) string { return text[:min(len(text), 100)] }
