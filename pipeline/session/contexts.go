package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// NewContext starts another interpreter in a session, with its own variables. Its answer is a [Context];
// Request.Context runs code in it.
type NewContext struct {
	Namespace, Session string
	ID                 string // "" generates one
	Language           string // "" is Python
	Dir                string // its working directory; "" is the home directory
	Env                []string
}

func (q NewContext) Subject() pipeline.Subject {
	return pipeline.Subject{Name: "context", Namespace: q.Namespace, Session: q.Session, Language: q.Language, Facts: pipeline.EnvFacts(q.Env)}
}

func (q NewContext) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[Context], error) {
	language, _, err := containment.SessionLanguage(r.Pipeline, cmp.Or(q.Language, validate.Python), "")
	if err != nil {
		return nil, err
	}
	if err := containment.CheckEnv(q.Env, nil); err != nil {
		return nil, err
	}
	c := Context{ID: cmp.Or(q.ID, pipeline.NewID()), Language: language, Dir: q.Dir}
	row := pipeline.Facts{"action": "create", "context": c.ID, "language": language}
	return PlanInside(r, q.Session, "session.context", row, func(ctx context.Context, s *Session) (Context, error) {
		made, err := s.NewContext(ctx, c, q.Env)
		if err != nil && q.Dir != "" && strings.Contains(err.Error(), "chdir ") {
			err = pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the directory %.200q does not exist in the session", q.Dir),
				"create it first")
		}
		return made, err
	})
}

// EndContext ends an interpreter that NewContext started, even while it is busy.
type EndContext struct {
	Namespace, Session, Context string
	Restart                     bool // starts it again, without its variables
}

func (q EndContext) Subject() pipeline.Subject {
	about := pipeline.About("context", q.Namespace, q.Session)
	about.Facts = pipeline.Facts{}
	about.Facts.AddIf("context", q.Context, len(q.Context))
	return about
}

func (q EndContext) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	action, do := "end", func(_ context.Context, s *Session) error { return s.EndContext(q.Context) }
	if q.Restart {
		action, do = "restart", func(ctx context.Context, s *Session) error { return s.RestartContext(ctx, q.Context) }
	}
	return PlanInside(r, q.Session, "session.context", pipeline.Facts{"action": action, "context": q.Context},
		func(ctx context.Context, s *Session) (pipeline.NoAnswer, error) {
			return pipeline.NoAnswer{}, do(ctx, s)
		})
}

// PlanInside plans a change inside a session. more are additional facts for its row.
func PlanInside[T any](r *pipeline.Run, id, row string, more pipeline.Facts, do func(context.Context, *Session) (T, error)) (
	pipeline.Action[T], error) {
	s, err := FindSession(r.Pipeline, r.Outcome.Namespace, id)
	if err != nil {
		return nil, err
	}
	info := s.Info()
	r.Outcome.Language, r.Outcome.Backend, r.Outcome.Profile = info.Language, info.Backend, info.Profile
	r.Leases = s.Leases()
	c := &pipeline.Change[T]{Task: pipeline.Task[T]{Run: r, Stage: pipeline.StageBackend}, RowKind: row, Facts: pipeline.Facts{"session": id}}
	maps.Copy(c.Facts, more)
	c.Do = func(ctx context.Context) (answer T, err error) {
		done, err := s.Use()
		if err != nil {
			return answer, ErrorOf(pipeline.StageBackend, err)
		}
		defer done()
		if answer, err = do(ctx, s); err != nil {
			return answer, ErrorOf(pipeline.StageBackend, err)
		}
		return answer, nil
	}
	return c, nil
}

// Change changes an existing session. Its answer is the session's [Info].
type Change struct {
	Namespace, Session string
	// Ends is the new end of the session's life; zero keeps the old one. The limit for lifetimes of new sessions
	// applies.
	Ends time.Time
	// Extend keeps a later end than Ends.
	Extend bool
	// Metadata replaces the labels of its client; nil keeps them.
	Metadata map[string]string
}

func (q Change) Subject() pipeline.Subject { return pipeline.About("session", q.Namespace, q.Session) }

func (q Change) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[Info], error) {
	if err := checkMetadata(q.Metadata); err != nil {
		return nil, err
	}
	f := pipeline.Facts{}
	if !q.Ends.IsZero() {
		f["ends"] = q.Ends.UTC().Format(time.RFC3339)
	}
	f.AddIf("metadata", len(q.Metadata), len(q.Metadata))
	return PlanInside(r, q.Session, "session.changed", f, func(_ context.Context, s *Session) (Info, error) {
		if !q.Ends.IsZero() {
			if err := stateOf(r.Pipeline).manager.Reschedule(s, q.Ends, q.Extend); err != nil {
				return Info{}, pipeline.Refuse(pipeline.StageValidate, err.Error(), "choose an earlier end")
			}
		}
		s.Change(func(i *Info) {
			if q.Metadata != nil {
				i.Metadata = q.Metadata
			}
		})
		return s.Info(), nil
	})
}
