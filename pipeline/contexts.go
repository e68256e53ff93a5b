package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// NewContext starts another interpreter in a session, with variables of its own. It comes to its [session.Context]; code runs in
// it by Request.Context.
type NewContext struct {
	Namespace, Session string
	ID                 string // "" makes one
	Language           string // "" is Python
	Dir                string // in which it begins; "" is the home directory
	Env                []string
}

func (q NewContext) subject() subject {
	return subject{name: "context", namespace: q.Namespace, session: q.Session, language: q.Language, facts: envFacts(q.Env)}
}

func (q NewContext) plan(_ context.Context, r *run) (action[session.Context], error) {
	language, _, err := r.p.sessionLanguage(cmp.Or(q.Language, validate.Python), "")
	if err != nil {
		return nil, err
	}
	if err := checkEnv(q.Env, nil); err != nil {
		return nil, err
	}
	c := session.Context{ID: cmp.Or(q.ID, NewID()), Language: language, Dir: q.Dir}
	row := facts{"action": "create", "context": c.ID, "language": language}
	return planInside(r, q.Session, "session.context", row, func(ctx context.Context, s *session.Session) (session.Context, error) {
		made, err := s.NewContext(ctx, c, q.Env)
		if err != nil && q.Dir != "" && strings.Contains(err.Error(), "chdir ") {
			err = refuse(StageValidate, fmt.Sprintf("the directory %.200q does not exist in the session", q.Dir), "create it before")
		}
		return made, err
	})
}

// EndContext ends an interpreter that NewContext has started, whatever it is doing.
type EndContext struct {
	Namespace, Session, Context string
	Restart                     bool // it starts again, without its variables
}

func (q EndContext) subject() subject {
	about := about("context", q.Namespace, q.Session)
	about.facts = facts{}
	about.facts.add("context", q.Context, len(q.Context))
	return about
}

func (q EndContext) plan(_ context.Context, r *run) (action[None], error) {
	action, do := "end", func(_ context.Context, s *session.Session) error { return s.EndContext(q.Context) }
	if q.Restart {
		action, do = "restart", func(ctx context.Context, s *session.Session) error { return s.RestartContext(ctx, q.Context) }
	}
	return planInside(r, q.Session, "session.context", facts{"action": action, "context": q.Context}, func(ctx context.Context, s *session.Session) (None, error) {
		return None{}, do(ctx, s)
	})
}

// planInside plans a change of what is in a session. Its row says more.
func planInside[T any](r *run, id, row string, more facts, do func(context.Context, *session.Session) (T, error)) (action[T], error) {
	s, err := r.p.own(r.res.Namespace, id)
	if err != nil {
		return nil, err
	}
	info := s.Info()
	r.res.Language, r.res.Backend, r.res.Profile = info.Language, info.Backend, info.Profile
	r.leases = s.Leases()
	c := &change[T]{task: task[T]{run: r, stage: StageBackend}, row: row, facts: facts{"session": id}}
	maps.Copy(c.facts, more)
	c.do = func(ctx context.Context) (answer T, err error) {
		done, err := s.Use()
		if err != nil {
			return answer, sessionError(StageBackend, err)
		}
		defer done()
		if answer, err = do(ctx, s); err != nil {
			return answer, sessionError(StageBackend, err)
		}
		return answer, nil
	}
	return c, nil
}

// ChangeSession changes a session that stands. It comes to its [session.Info].
type ChangeSession struct {
	Namespace, Session string
	// Ends is when it ends in any case; zero keeps that. It is bounded as the lifetime of a new session is.
	Ends time.Time
	// Extend keeps a later end than Ends.
	Extend bool
	// Metadata replaces what its client calls it; nil keeps that.
	Metadata map[string]string
}

func (q ChangeSession) subject() subject { return about("session", q.Namespace, q.Session) }

func (q ChangeSession) plan(_ context.Context, r *run) (action[session.Info], error) {
	if err := checkMetadata(q.Metadata); err != nil {
		return nil, err
	}
	f := facts{}
	if !q.Ends.IsZero() {
		f["ends"] = q.Ends.UTC().Format(time.RFC3339)
	}
	f.add("metadata", len(q.Metadata), len(q.Metadata))
	return planInside(r, q.Session, "session.changed", f, func(_ context.Context, s *session.Session) (session.Info, error) {
		if !q.Ends.IsZero() {
			if err := r.p.sessions.Reschedule(s, q.Ends, q.Extend); err != nil {
				return session.Info{}, refuse(StageValidate, err.Error(), "ask for less")
			}
		}
		s.Change(func(i *session.Info) {
			if q.Metadata != nil {
				i.Metadata = q.Metadata
			}
		})
		return s.Info(), nil
	})
}
