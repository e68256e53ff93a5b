package e2b

import (
	"context"
	"net/http"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// pause ends a sandbox's programs and keeps its files. A request to keep its memory is refused if programs are
// running.
func (s *Server) pause(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	q := struct{ Memory bool }{true}
	if err := decodeOptional(r, &q); err != nil {
		return err
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	if s.isPaused(b) {
		return door.Refuse(http.StatusConflict, "sandbox "+b.ID+" is already paused")
	}
	_, _, err := pipeline.Do(context.WithoutCancel(r.Context()), s.cfg.Pipeline, session.Pause{
		Namespace: b.Namespace, Session: b.session(), Memory: q.Memory,
	})
	if err != nil {
		return notCopied(err, "memory can't be kept: pause with memory false (in SDKs keepMemory: false), or end all programs")
	}
	return door.Reply(w, http.StatusNoContent, nil)
}

// isPaused reports whether a sandbox's session has ended and its files are kept.
func (s *Server) isPaused(b *Sandbox) bool {
	_, is := session.PausedInfo(s.cfg.Pipeline, b.Namespace, b.session())
	return is
}

// resume starts a paused sandbox for some seconds, with its files, environment and rules, but none of its programs.
func (s *Server) resume(r *http.Request, b *Sandbox, seconds int64) error {
	info, err := s.start(r, b, b.session(), seconds)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current, b.contexts, b.samples = info.ID, newContexts(), nil
	return nil
}

// start starts a session for a sandbox, for some seconds, with the files of a paused session or a snapshot unless
// files is "".
func (s *Server) start(r *http.Request, b *Sandbox, files string, seconds int64) (session.Info, error) {
	internet, network := b.networkSettings()
	rules, err := network.rules(internet)
	if err != nil {
		return session.Info{}, err
	}
	life := time.Duration(min(max(seconds, 1), maxSeconds)) * time.Second // 0 would be the operator's default
	info, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, session.New{
		Namespace: b.Namespace, Bare: true, Home: homeDir, Backend: b.runtime.Backend, Profile: b.runtime.Profile, Project: b.runtime.Workspace,
		Idle: life, Lifetime: life,
		Network: &rules, Env: environment(b.Env), Template: b.Template, Metadata: b.Metadata, Pause: b.autoPause, Files: files,
	})
	return info, err
}
