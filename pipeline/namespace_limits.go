package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// namespaceLimits holds the limits of namespaces that were set while the server runs.
type namespaceLimits struct {
	mu   sync.Mutex
	each map[string]Bounds
}

func (s *namespaceLimits) bounds(namespace string) Bounds {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.each[namespace]
}

func (s *namespaceLimits) set(namespace string, b Bounds) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each[namespace] = b.or(s.each[namespace])
}

// InForce are the limits of a run in this namespace that asks for none, and the caps of all.
func (p *Pipeline) InForce(namespace string) (limits, caps Bounds) {
	b := p.namespaceLimits.bounds(orDefault(namespace)).or(p.cfg.Limits)
	return b.atMost(p.cfg.Caps), p.cfg.Caps
}

// NewLimits changes what later runs of a namespace get that ask for nothing else, or, with a session, what that may use
// from now on. Zero fields stay as they are, and nothing goes above the operator's caps. It is in the audit log before it takes effect.
// It comes to what is then in force.
type NewLimits struct {
	Namespace, Session string
	Bounds             Bounds
}

func (q NewLimits) subject() subject { return about("limits", q.Namespace, q.Session) }

// plan refuses limits above a cap, and those that a session can't have any more.
func (q NewLimits) plan(_ context.Context, r *run) (action[Bounds], error) {
	p, namespace := r.p, r.res.Namespace
	if !validName().MatchString(namespace) {
		return nil, refuse(StageValidate, fmt.Sprintf("%q is not a namespace", namespace), "")
	}
	if _, err := p.limit(namespace, q.Bounds); err != nil {
		return nil, err
	}
	var s *session.Session
	if q.Session != "" {
		var err error
		if s, err = p.own(namespace, q.Session); err != nil {
			return nil, err
		}
		if q.Bounds.Disk > 0 && q.Bounds.Disk != BoundsOf(s.Info().Limits).Disk {
			return nil, refuse(StageValidate, "the disk of a session that stands can't be changed", "create a new session")
		}
	}
	return &change[Bounds]{task: task[Bounds]{run: r, stage: StageBackend, do: func(context.Context) (Bounds, error) {
		if s != nil {
			return changeSession(s, q.Bounds)
		}
		p.namespaceLimits.set(namespace, q.Bounds)
		now, _ := p.InForce(namespace)
		return now, nil
	}}, row: "limits.changed", facts: facts{"session": q.Session, "limits": LimitsOf(q.Bounds)}}, nil
}

// changeSession changes the limits of a session that runs, and returns those in force.
func changeSession(s *session.Session, b Bounds) (Bounds, error) {
	was := BoundsOf(s.Info().Limits)
	got, err := s.Sandbox().Limit(backends.Limits{RAM: b.RAM, CPU: b.CPU, Processes: b.Processes})
	if err != nil {
		return was, broke(StageBackend, err)
	}
	now := b.or(was)
	now.RAM, now.CPU, now.Processes, now.Disk = got.RAM, got.CPU, got.Processes, got.Disk
	s.Change(func(i *session.Info) { i.Limits = LimitsOf(now) })
	return now, nil
}

// LimitsOf returns limits in the units that people set them in.
func LimitsOf(b Bounds) session.Limits {
	return session.Limits{RAM: b.RAM >> 20, CPU: b.CPU, Wall: b.Wall.Seconds(), Processes: b.Processes, Output: b.Output, Disk: b.Disk >> 20}
}

// BoundsOf converts limits from the units that people set them in. It is the reverse of LimitsOf.
func BoundsOf(l session.Limits) Bounds {
	return Bounds{Limits: backends.Limits{RAM: l.RAM << 20, CPU: l.CPU, Wall: time.Duration(l.Wall * float64(time.Second)), Processes: l.Processes, Disk: l.Disk << 20}, Output: l.Output}
}
