package session

import (
	"context"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// End ends a session of a namespace with all of its programs, or removes the files of a paused session or a snapshot.
// Its answer is the session's last [Info].
type End struct{ Namespace, Session string }

func (q End) Subject() pipeline.Subject { return pipeline.About("session", q.Namespace, q.Session) }

// Plan finds the session. sessionEnded writes the row of its end once it is gone, as for sessions that end by
// themselves.
func (q End) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[Info], error) {
	s, err := FindSession(r.Pipeline, q.Namespace, q.Session)
	if k := stateOf(r.Pipeline).paused.findFiles(q.Namespace, q.Session); k != nil && err != nil {
		return &pipeline.Change[Info]{Task: pipeline.Task[Info]{Run: r, Stage: pipeline.StageValidate, Do: func(context.Context) (Info, error) {
			stateOf(r.Pipeline).paused.drop(q.Session)
			return k.info, nil
		}}, RowKind: sessionForgotten, Facts: pipeline.Facts{"session": q.Session, "why": "closed"}, Revokes: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return &pipeline.Change[Info]{Task: pipeline.Task[Info]{Run: r, Stage: pipeline.StageValidate,
		Do: func(ctx context.Context) (Info, error) {
			return endSession(ctx, r, s, "closed")
		}}}, nil
}

// endSession ends a session, and records the caller in the row of its end.
func endSession(ctx context.Context, r *pipeline.Run, s *Session, why string) (Info, error) {
	who := pipeline.CallerFrom(ctx)
	s.Change(func(i *Info) { i.By, i.User, i.Identity = who.By, who.User, who.Identity })
	id, unrecorded := s.Info().ID, &atomic.Bool{}
	stateOf(r.Pipeline).ends.Store(id, unrecorded)
	defer stateOf(r.Pipeline).ends.Delete(id)
	info, err := stateOf(r.Pipeline).manager.End(id, why)
	if err != nil {
		return info, ErrorOf(pipeline.StageValidate, err)
	}
	if unrecorded.Load() {
		info.Late = audit.OwedText
		r.WarnLateRow()
	}
	return info, nil
}
