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

// codeContext is an interpreter of a sandbox as SDKs see it. Its state is guarded by its mutex.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`

	mu    sync.Mutex
	runs  int  // executions so far
	ready bool // it was started
}

// homeDir is where programs of a sandbox begin.
const homeDir = "/home/user"

// languages are E2B's, by what else callers call them. Java and others are not among ours.
var languages = map[string]string{
	"": "python", "python": "python", "python3": "python", "javascript": "javascript", "js": "javascript", "node": "javascript",
	"typescript": "typescript", "ts": "typescript", "bash": "bash", "sh": "bash", "shell": "bash", "r": "r",
}

// language returns a language by what callers call it: E2B's, or one of the operator's own.
func (s *Server) language(name string) (language string, known bool) {
	if own := containment.OtherLanguage(s.cfg.Pipeline, name, ""); own != "" {
		return own, true
	}
	language, known = languages[strings.ToLower(name)]
	return language, known
}

// kernelOf returns the language of the interpreter that runs code of a language.
func kernelOf(language string) string {
	switch language {
	case "javascript", "typescript":
		return "node"
	case "bash":
		return "shell"
	}
	return language
}

// interpreter answers what is asked of a sandbox's code interpreter.
func (s *Server) interpreter(w http.ResponseWriter, r *http.Request, b *Sandbox, p *pass) {
	if r.URL.Path == "/health" {
		w.WriteHeader(http.StatusOK)
		return
	}
	if p == nil {
		refuse(w, http.StatusForbidden, "the access token is missing, or is not one of this sandbox")
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
	return door.Refuse(http.StatusNotFound, "there is nothing at this path, or not by this method")
}

// newContexts are the contexts that a sandbox has from its beginning. They are started when they are first used.
func newContexts() (all []*codeContext) {
	for _, language := range []string{"python", "javascript"} {
		all = append(all, &codeContext{ID: language, Language: language, Dir: homeDir})
	}
	return all
}

// contextOf returns the context of an id, nil if there is none.
func (b *Sandbox) contextOf(id string) *codeContext {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.find(id)
}

// byLanguage returns the context that runs code which names a language alone. It is made when it is first asked for.
func (b *Sandbox) byLanguage(language string) *codeContext {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.find(language)
	if c == nil {
		c = &codeContext{ID: language, Language: language, Dir: homeDir}
		b.contexts = append(b.contexts, c)
	}
	return c
}

// find returns the context of an id, or nil. The mutex is held.
func (b *Sandbox) find(id string) *codeContext {
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

// begin starts the interpreter of a context that has none yet.
func (s *Server) begin(r *http.Request, b *Sandbox, c *codeContext) error {
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

// newContext makes a context, and starts it.
func (s *Server) newContext(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	var q struct{ Language, Cwd string }
	if err := decode(r, &q); err != nil {
		return err
	}
	language, ok := s.language(q.Language)
	if !ok {
		return door.Refuse(http.StatusBadRequest, "there is no language "+clip(q.Language)+": use python, javascript, typescript, bash or r")
	}
	c := &codeContext{ID: strings.ToLower(rand.Text()), Language: language, Dir: cmp.Or(q.Cwd, homeDir)}
	if err := s.begin(r, b, c); err != nil {
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
	return s.change(w, r, c, http.StatusOK, session.EndContext{Namespace: b.Namespace, Session: b.session(), Context: id, Restart: true})
}

func (s *Server) endContext(w http.ResponseWriter, r *http.Request, b *Sandbox, id string) error {
	c := b.contextOf(id)
	if c == nil {
		return noContext(id)
	}
	b.forgetContext(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.change(w, r, c, http.StatusNoContent, session.EndContext{Namespace: b.Namespace, Session: b.session(), Context: id})
}

// change has an effect on a context, if that was started, and answers. The context's mutex is held.
func (s *Server) change(w http.ResponseWriter, r *http.Request, c *codeContext, status int, e session.EndContext) error {
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

// clip returns text of a caller as it may stand in an answer.
func clip(text string) string { return text[:min(len(text), 100)] }
