package report

import (
	"cmp"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// layers counts the layers of runs.
type layers struct {
	inForce  counter[string] // by layer: runs with it (N), and without it (Denied)
	missing  counter[gap]
	reported int64 // runs that list their layers
	without  int64 // runs without some layer
	list     newest[endedRun]
	refused  counter[string]
}

// gap is a place where a layer was missing.
type gap struct{ Layer, Backend, Profile, Namespace string }

func (s *layers) addRow(r audit.Row, f facts.Facts) {
	if r.Kind == "execution.refused" && f.Layer != "" {
		s.refused.countOf(clip(f.Layer), r.Time).N++
	}
	if len(f.Layers)+len(f.Missing) == 0 || r.Kind == "session.created" {
		return
	}
	s.reported++
	for _, l := range f.Layers {
		s.inForce.countOf(clip(l), r.Time).N++
	}
	for _, l := range f.Missing {
		s.inForce.countOf(clip(l), r.Time).Denied++
		s.missing.countOf(gap{clip(l), clip(f.Backend), clip(f.Profile), clip(r.Namespace)}, r.Time).N++
	}
	if len(f.Missing) > 0 {
		s.without++
		if isEnd(r.Kind) {
			s.list.appendItem(endedRunOf(r, f), maxNewest)
		}
	}
}

// network counts allowed and denied names.
type network struct {
	names          counter[target] // N allowed, Denied denied, in rows
	allowed        int64
	denied         int64
	reasons        counter[string] // of denials
	unlisted       int64           // decisions that the rows of run ends don't list
	sent, received int64
}

// target is a name and a port; port 0 is a DNS query.
type target struct {
	Name string
	Port int
}

func (s *network) addRow(r audit.Row, f facts.Facts) {
	for _, d := range f.Egress {
		c := s.names.countOf(newTarget(d.Name, d.Port), r.Time)
		c.Connections, c.Sent, c.Received = c.Connections+d.Count, c.Sent+d.Sent, c.Received+d.Received
		s.sent, s.received = s.sent+d.Sent, s.received+d.Received
	}
	if f.Decisions > int64(len(f.Egress)) {
		s.unlisted += f.Decisions - int64(len(f.Egress))
	}
	if f.What != "" || r.Kind != "egress.approved" && r.Kind != "egress.denied" {
		return
	}
	c := s.names.countOf(newTarget(f.Name, f.Port), r.Time)
	c.Connections, c.Received = c.Connections+f.Count, c.Received+f.Bytes // of an installation
	s.received += f.Bytes
	if r.Kind == "egress.approved" {
		c.N++
		s.allowed++
		return
	}
	c.Denied++
	c.Why = clip(f.Reason)
	s.denied++
	s.reasons.countOf(clip(f.Reason), r.Time).N++
}

func newTarget(name string, port int) target { return target{cmp.Or(clip(name), "(no name)"), port} }
