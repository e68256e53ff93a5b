package cli

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
)

func TestMetricFamily(t *testing.T) {
	f := newFamily("sandboxmcp_things_total", "counter", "Things.")
	if got := f.String(); got != "" {
		t.Errorf("without values: got %q, want nothing", got)
	}
	f.add(3)
	f.add(0.25, "a", "x", "b", "\"q\" \\ \n é")
	want := "# HELP sandboxmcp_things_total Things.\n# TYPE sandboxmcp_things_total counter\n" +
		"sandboxmcp_things_total 3\n" +
		`sandboxmcp_things_total{a="x",b="\"q\" \\ \n é"} 0.25` + "\n"
	if got := f.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFigures(t *testing.T) {
	s := status.Stats{Slots: 4}
	got := map[string]string{}
	for _, f := range metricFamilies(s) {
		got[f.name] = f.String()
	}
	const slots = "# HELP sandboxmcp_queue_slots Runs that may go on at once.\n# TYPE sandboxmcp_queue_slots gauge\nsandboxmcp_queue_slots 4\n"
	if got["sandboxmcp_queue_slots"] != slots {
		t.Errorf("got %q, want %q", got["sandboxmcp_queue_slots"], slots)
	}
	if got["sandboxmcp_sessions"] != "" {
		t.Errorf("sessions: got %q, want nothing", got["sandboxmcp_sessions"])
	}
}
