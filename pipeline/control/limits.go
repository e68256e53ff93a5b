package control

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Limits are the default limits of a namespace's runs, or those of a session, and the caps.
type Limits struct {
	Namespace string          `json:"namespace"`
	Session   string          `json:"session,omitempty"`
	Limits    pipeline.Limits `json:"limits"`
	Caps      pipeline.Limits `json:"caps"`
}

// Change changes limits of a namespace or, if named, of a session. Zero fields stay as they are.
type Change struct {
	Namespace string          `json:"namespace,omitempty" about:"The namespace of the runs. Default: \"default\", or that of the session." range:"..64"`
	Session   string          `json:"session,omitempty" about:"The session, by its id or a unique prefix." range:"..64"`
	Limits    pipeline.Limits `json:"limits" about:"The limits; omitted ones, or 0, stay unchanged." required:"true"`
}

func (a *API) limits(ctx context.Context, q *OfLimits) (Limits, error) {
	now, own, err := a.limitsOf(ctx, q.Namespace, q.Session)
	if err != nil {
		return now, err
	}
	limits, caps := a.c.Pipeline.LimitsInForce(now.Namespace)
	now.Limits, now.Caps = pipeline.LimitsOf(limits), pipeline.LimitsOf(caps)
	if now.Session != "" {
		now.Limits = own.Limits
	}
	return now, nil
}

// limitsOf returns the session or else the namespace that a request names.
func (a *API) limitsOf(ctx context.Context, namespace, id string) (now Limits, own session.Info, err error) {
	if id != "" {
		if own, err = a.findSession(ctx, id); err != nil {
			return now, own, err
		}
		namespace = own.Namespace
	}
	now.Namespace, now.Session = cmp.Or(namespace, "default"), own.ID
	return now, own, requesterOf(ctx).checkNamespace(now.Namespace)
}

func (a *API) setLimits(ctx context.Context, q *Change) (Limits, error) {
	now, _, err := a.limitsOf(ctx, q.Namespace, q.Session)
	if err == nil && q.Namespace != "" && q.Namespace != now.Namespace {
		err = fmt.Errorf("%w: %.40q in the namespace %.40q", session.ErrUnknown, q.Session, q.Namespace)
	}
	if err == nil {
		err = checkComputable(q.Limits)
	}
	if err != nil {
		return now, err
	}
	bounds, _, err := pipeline.Do(ctx, a.c.Pipeline, session.NewLimits{
		Namespace: now.Namespace, Session: now.Session, Bounds: pipeline.BoundsOf(q.Limits),
	})
	if err == nil {
		_, caps := a.c.Pipeline.LimitsInForce(now.Namespace)
		now.Limits, now.Caps = pipeline.LimitsOf(bounds), pipeline.LimitsOf(caps)
	}
	return now, err
}

// checkComputable refuses limits that would overflow. Caps are far below.
func checkComputable(l pipeline.Limits) error {
	if l.Wall <= maxSeconds && l.RAM <= 1<<40 && l.Disk <= 1<<40 {
		return nil
	}
	return failure(http.StatusBadRequest, "these limits are too large")
}

// Value is a value for the variable Key of a session: Value, or the variable From.Key of another session.
type Value struct {
	OfSession
	Key   string          `json:"key" about:"The variable's name in the session." range:"1..200" required:"true"`
	Value json.RawMessage `json:"value,omitempty" about:"The value, any JSON."`
	From  string          `json:"from,omitempty" about:"The source session, in the same namespace." range:"..64"`
	Its   string          `json:"from_key,omitempty" about:"The variable's name in the source session. Default: key." range:"..200"`
}

const maxValueBody = 40 << 20 // bytes: more than the longest value of session.Bridge

func (a *API) bridge(ctx context.Context, v *Value) (pipeline.Outcome, error) {
	info, err := a.findSession(ctx, v.ID)
	b := session.Bridge{Namespace: info.Namespace, Session: info.ID, Key: v.Key, As: v.Key, Value: v.Value}
	if err == nil && v.From != "" {
		var from session.Info
		from, err = a.findSession(ctx, v.From)
		b.From, b.Key = from.ID, cmp.Or(v.Its, b.Key)
	}
	if err != nil {
		return pipeline.Outcome{}, err
	}
	_, res, err := pipeline.Do(ctx, a.c.Pipeline, b)
	return res, err
}
