package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Limits are the limits of a namespace's run that asks for none, or those of a session, and the caps of all.
type Limits struct {
	Namespace string         `json:"namespace"`
	Session   string         `json:"session,omitempty"`
	Limits    session.Limits `json:"limits"`
	Caps      session.Limits `json:"caps"`
}

// Change asks for other limits: of a namespace or, if one is named, of a session. Zero fields stay as they are.
type Change struct {
	Namespace string         `json:"namespace,omitempty"`
	Session   string         `json:"session,omitempty"`
	Limits    session.Limits `json:"limits"`
}

func (l *Listener) limits(r *http.Request) (any, error) {
	q := r.URL.Query()
	now := Limits{Namespace: q.Get("namespace"), Session: q.Get("session")}
	var own *session.Info
	if now.Session != "" {
		info, err := l.find(now.Session)
		if err != nil {
			return nil, err
		}
		now.Namespace, now.Session, own = info.Namespace, info.ID, &info
	}
	now.Namespace = cmp.Or(now.Namespace, "default")
	limits, caps := l.c.Pipeline.InForce(now.Namespace)
	now.Limits, now.Caps = pipeline.LimitsOf(limits), pipeline.LimitsOf(caps)
	if own != nil {
		now.Limits = own.Limits
	}
	return now, nil
}

func (l *Listener) setLimits(r *http.Request) (any, error) {
	var q Change
	if err := read(r, maxBody, &q); err != nil {
		return nil, err
	}
	now := Limits{Namespace: q.Namespace}
	if q.Session != "" {
		info, err := l.find(q.Session)
		if err == nil && q.Namespace != "" && q.Namespace != info.Namespace {
			err = fmt.Errorf("%w: %.40q in the namespace %.40q", session.ErrUnknown, q.Session, q.Namespace)
		}
		if err != nil {
			return nil, err
		}
		now.Namespace, now.Session = info.Namespace, info.ID
	}
	now.Namespace = cmp.Or(now.Namespace, "default")
	if !(q.Limits.Wall <= maxSeconds && q.Limits.RAM <= 1<<40 && q.Limits.Disk <= 1<<40) { // beyond, arithmetic goes wrong; caps are far below
		return nil, failure(http.StatusBadRequest, "these are no limits")
	}
	res, err := l.c.Pipeline.Do(r.Context(), pipeline.NewLimits{Namespace: now.Namespace, Session: now.Session, Bounds: pipeline.BoundsOf(q.Limits)})
	if err == nil {
		_, caps := l.c.Pipeline.InForce(now.Namespace)
		now.Limits, now.Caps = pipeline.LimitsOf(res.Answer.(pipeline.Bounds)), pipeline.LimitsOf(caps)
	}
	return now, err
}

// Value is what to put into a session: Value under Key, or what another session has under From.Key.
type Value struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
	From  string          `json:"from,omitempty"` // a session of the same namespace
	Its   string          `json:"from_key,omitempty"`
}

const maxValueBody = 40 << 20 // bytes: more than the longest value that the pipeline carries

func (l *Listener) bridge(r *http.Request) (any, error) {
	var v Value
	if err := read(r, maxValueBody, &v); err != nil {
		return nil, err
	}
	info, err := l.find(r.PathValue("id"))
	b := pipeline.Bridge{Namespace: info.Namespace, Session: info.ID, Key: v.Key, As: v.Key, Value: v.Value}
	if err == nil && v.From != "" {
		var from session.Info
		from, err = l.find(v.From)
		b.From, b.Key = from.ID, cmp.Or(v.Its, b.Key)
	}
	if err != nil {
		return nil, err
	}
	if v.Key == "" {
		return nil, failure(http.StatusBadRequest, "there is no key")
	}
	return l.c.Pipeline.Do(r.Context(), b)
}
