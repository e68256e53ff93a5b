package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/status"
)

// metricsHandler returns the handler for Prometheus. The metrics cover all namespaces, so it requires a person with
// access to all.
func metricsHandler(p *pipeline.Pipeline) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i, _ := identity.From(r.Context()); i.Kind != identity.Person || !i.Namespaces.All() {
			http.Error(w, "figures are for a person who has all namespaces", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		for _, f := range metricFamilies(status.Now(p)) {
			if _, err := w.Write([]byte(f.String())); err != nil {
				return // the client has gone
			}
		}
	})
}

// metricFamilies converts a server's statistics to metrics.
func metricFamilies(s status.Stats) []*metricFamily {
	runs := newFamily("sandboxmcp_runs_total", "counter", "Runs that have ended, by how.")
	for ended, n := range s.Runs {
		runs.add(float64(n), "ended", ended)
	}
	duration := newFamily("sandboxmcp_run_duration_seconds", "gauge", "From request to result, of the last 1,000 runs.")
	for quantile, ms := range map[float64]float64{0.5: s.P50, 0.9: s.P90, 0.99: s.P99} {
		duration.add(ms/1000, "quantile", strconv.FormatFloat(quantile, 'f', -1, 64))
	}
	queue := newFamily("sandboxmcp_queue_runs", "gauge", "Runs that have a slot, or wait for one.")
	queue.add(float64(s.Running), "state", "running")
	queue.add(float64(s.Waiting), "state", "waiting")
	slots := newFamily("sandboxmcp_queue_slots", "gauge", "Runs that may go on at once.")
	slots.add(float64(s.Slots))
	sessions := newFamily("sandboxmcp_sessions", "gauge", "Sessions, by state.")
	for state, n := range s.Sessions {
		sessions.add(float64(n), "state", state)
	}
	jobs := newFamily("sandboxmcp_background_runs", "gauge", "Runs in the background that still run.")
	jobs.add(float64(s.Jobs))
	pools := newFamily("sandboxmcp_pool_requests_total", "counter", "Programs that found a sandbox ready (hit), or did not (miss).")
	for _, p := range s.Pools {
		pools.add(float64(p.Hits), "backend", p.Backend, "language", p.Language, "result", "hit")
		pools.add(float64(p.Misses), "backend", p.Backend, "language", p.Language, "result", "miss")
	}
	return []*metricFamily{runs, duration, queue, slots, sessions, jobs, pools}
}

// metricFamily is a metric with all its labels, in Prometheus' text format 0.0.4, which every version of Prometheus
// reads.
type metricFamily struct {
	name, kind, help string
	samples          strings.Builder
}

func newFamily(name, kind, help string) *metricFamily {
	return &metricFamily{name: name, kind: kind, help: help}
}

// labelEscapes are the escapes of label values in that format: Go's %q writes others, which Prometheus does not know.
var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// add adds a value with labels, which are pairs of names and values.
func (f *metricFamily) add(v float64, labels ...string) {
	var pairs []string
	for i := 0; i < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+labelEscapes.Replace(labels[i+1])+`"`)
	}
	f.samples.WriteString(f.name)
	if len(pairs) > 0 {
		f.samples.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	f.samples.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

// String returns "" for a metric without values.
func (f *metricFamily) String() string {
	if f.samples.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n%s", f.name, f.help, f.name, f.kind, f.samples.String())
}
