package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// writeEgress writes a run's refused hosts, and how to ask for them. The facts list the allowed hosts too.
func (t *runReport) writeEgress() {
	var ask []string
	printed, left := 0, 0
	t.f.Egress, t.f.EgressMore = EgressFacts(t.res.Egress)
	for _, d := range t.res.Egress {
		switch {
		case d.Allowed && !d.Failed:
			continue
		case printed == MaxEntries:
			left++
			continue
		}
		printed++
		if t.f.Refused != nil && t.f.Refused.Stage == pipeline.StageEgress { // the refusal names the host
			continue
		}
		if d.Failed {
			t.writeLine("%s can't be reached%s: %s", HostOf(d.Decision), times(d.Count), OneLine(d.Reason))
			continue
		}
		t.writeLine("egress to %s was refused%s: %s", HostOf(d.Decision), times(d.Count), OneLine(d.Why()))
		if domain := OneLine(d.Ask); domain != "" && !slices.Contains(ask, domain) {
			ask = append(ask, domain)
		}
	}
	if left > 0 {
		t.writeLine("egress was refused to %s", Count(left, "more host"))
	}
	if len(ask) > 0 && t.f.Refused == nil { // otherwise the refusal says what to do
		t.writeLine("what to do: request_egress asks a person for %s; after approval, name it in allowed_domains of the next call; or "+
			"do without it", strings.Join(ask, ", "))
		if t.s.Asks {
			typed := Commands(approval.Question{Kind: approval.Egress, What: ask[0], Namespace: t.res.Namespace, For: approval.DefaultFor},
				t.s.Namespace)
			t.writeLine("  or a person types: %s", typed[len(typed)-1])
		}
	}
}

// maxHosts bounds the list of hosts: a crawler can reach ten thousand.
const maxHosts = 100

// EgressFacts returns the decisions for clients, and the number left out. Refused and failed hosts come first when
// there are too many.
func EgressFacts(all []egress.Record) (entries []EgressDecision, more int) {
	if more = len(all) - maxHosts; more > 0 {
		reached := func(d egress.Record) int {
			if d.Allowed && !d.Failed {
				return 1
			}
			return 0
		}
		all = slices.SortedStableFunc(slices.Values(all), func(a, b egress.Record) int { return reached(a) - reached(b) })[:maxHosts]
	}
	for _, d := range all {
		entries = append(entries, EgressDecision{d.Name, d.Port, d.Allowed, d.Failed, d.Reason, d.Ask, d.Count, d.Sent, d.Received})
	}
	return entries, max(more, 0)
}

// HostOf returns a host's name, with the port of a connection.
func HostOf(d egress.Decision) string {
	d.Name = OneLine(d.Name)
	return d.Host()
}

func times(n int64) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times)", n)
}
