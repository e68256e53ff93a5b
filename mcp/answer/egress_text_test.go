package answer

import (
	"fmt"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// TestEgressIsBounded: a program that reaches thousands of hosts does not fill a model's context.
func TestEgressIsBounded(t *testing.T) {
	var s Renderer
	var all []egress.Record
	for i := range 3000 {
		all = append(all, egress.Record{Decision: egress.Decision{Name: fmt.Sprintf("h%d.example", i), Port: 443, Allowed: true,
			Failed: i == 2000}, Count: 1})
	}
	all = append(all, egress.Record{Decision: egress.Decision{Name: "last.example", Port: 443, Reason: "no"}})
	f := s.Run(pipeline.Outcome{Egress: all}, nil).Facts.(*RunFacts)
	if len(f.Egress) != maxHosts || f.EgressMore != len(all)-maxHosts {
		t.Fatalf("%d hosts, and %d more", len(f.Egress), f.EgressMore)
	}
	for i, want := range []string{"h2000.example", "last.example", "h0.example", "h1.example"} {
		if f.Egress[i].Name != want {
			t.Errorf("host %d is %s, want %s", i, f.Egress[i].Name, want)
		}
	}
	if all[0].Name != "h0.example" || all[2000].Name != "h2000.example" {
		t.Error("the result itself was put in another order")
	}
	few := s.Run(pipeline.Outcome{Egress: all[:maxHosts]}, nil).Facts.(*RunFacts)
	if len(few.Egress) != maxHosts || few.EgressMore != 0 {
		t.Errorf("%d hosts, and %d more", len(few.Egress), few.EgressMore)
	}
}
