package session

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// NewLimits changes the default limits for later runs of a namespace, or the limits of a session from now on. Zero
// fields stay as they are, and the operator's caps apply. The audit log has the change before it takes effect. Its
// answer is the limits then in force.
type NewLimits struct {
	Namespace, Session string
	Bounds             pipeline.Bounds
}

func (q NewLimits) Subject() pipeline.Subject {
	return pipeline.About("limits", q.Namespace, q.Session)
}

// Plan refuses limits above a cap, and a new disk limit of an existing session.
func (q NewLimits) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[pipeline.Bounds], error) {
	p, namespace := r.Pipeline, r.Outcome.Namespace
	if err := pipeline.CheckIDAndNamespace(r.Outcome.ID, namespace); err != nil {
		return nil, err
	}
	if _, err := p.ResolveLimits(namespace, q.Bounds); err != nil {
		return nil, err
	}
	var s *Session
	if q.Session != "" {
		var err error
		if s, err = FindSession(p, namespace, q.Session); err != nil {
			return nil, err
		}
		if q.Bounds.Disk > 0 && q.Bounds.Disk != pipeline.BoundsOf(s.Info().Limits).Disk {
			return nil, pipeline.Refuse(pipeline.StageValidate, "the disk limit of an existing session can't be changed", "create a new session")
		}
	}
	return &pipeline.Change[pipeline.Bounds]{Task: pipeline.Task[pipeline.Bounds]{Run: r, Stage: pipeline.StageBackend,
		Do: func(context.Context) (pipeline.Bounds, error) {
			if s != nil {
				return changeSession(s, q.Bounds)
			}
			p.NamespaceLimits.Set(namespace, q.Bounds)
			now, _ := p.LimitsInForce(namespace)
			return now, nil
		}}, RowKind: "limits.changed", Facts: pipeline.Facts{"session": q.Session, "limits": pipeline.LimitsOf(q.Bounds)}}, nil
}

// changeSession changes the limits of a living session, and returns those in force.
func changeSession(s *Session, b pipeline.Bounds) (pipeline.Bounds, error) {
	was := pipeline.BoundsOf(s.Info().Limits)
	got, err := s.Sandbox().Limit(backends.Limits{RAM: b.RAM, CPU: b.CPU, Processes: b.Processes})
	if err != nil {
		return was, pipeline.WrapError(pipeline.StageBackend, err)
	}
	now := b.Or(was)
	now.RAM, now.CPU, now.Processes, now.Disk = got.RAM, got.CPU, got.Processes, got.Disk
	s.Change(func(i *Info) { i.Limits = pipeline.LimitsOf(now) })
	return now, nil
}
