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
	if s.each == nil {
		s.each = map[string]Bounds{}
	}
	s.each[namespace] = b.or(s.each[namespace])
}

// InForce are the limits of a run in this namespace that asks for none, and the caps of all.
func (p *Pipeline) InForce(namespace string) (limits, caps Bounds) {
	b := p.namespaceLimits.bounds(orDefault(namespace)).or(p.cfg.Limits)
	return b.atMost(p.cfg.Caps), p.cfg.Caps
}

// SetLimits changes what later runs of a namespace get that ask for nothing else, or, with a
// session, what that may use from now on. Zero fields stay as they are, and nothing goes above the
// operator's caps. It is in the audit log before it takes effect. What is then in force is returned.
func (p *Pipeline) SetLimits(ctx context.Context, namespace, id string, b Bounds) (Bounds, error) {
	r := p.begin(&Request{Namespace: namespace, Session: id, Name: "limits", Code: []byte{}})
	now, err := r.setLimits(ctx, id, b)
	if err != nil {
		_, err = r.stop(ctx, err)
	}
	return now, err
}

// setLimits checks and records a change of limits, and then makes it.
func (r *run) setLimits(ctx context.Context, id string, b Bounds) (Bounds, error) {
	p, namespace := r.p, r.res.Namespace
	if !validName(namespace) {
		return Bounds{}, refuse(StageValidate, fmt.Sprintf("%q is not a namespace", namespace), "")
	}
	if _, err := p.limit(namespace, b); err != nil { // above a cap
		return Bounds{}, err
	}
	var s *session.Session
	if id != "" {
		var err error
		if s, err = p.own(namespace, id); err != nil {
			return Bounds{}, err
		}
		if b.Disk > 0 && b.Disk != BoundsOf(s.Info().Limits).Disk {
			return Bounds{}, refuse(StageValidate, "the disk of a session that stands can't be changed", "create a new session")
		}
	}
	r.note("limits.changed", facts{"session": id, "limits": LimitsOf(b)})
	if err := r.flush(ctx); err != nil {
		return Bounds{}, err
	}
	if s == nil {
		p.namespaceLimits.set(namespace, b)
		limits, _ := p.InForce(namespace)
		return limits, nil
	}
	return changeSession(s, b)
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
