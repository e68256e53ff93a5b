package cli

import (
	"net/http"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// metricsHandler returns what answers Prometheus with the figures of a server. They are of all namespaces, so that only a person gets
// them who has all.
func metricsHandler(stats func() pipeline.Stats) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, _ := identity.From(r.Context())
		if i.Kind != identity.Person || !i.Namespaces.All() {
			http.Error(w, "figures are for a person who has all namespaces", http.StatusForbidden)
			return
		}
		format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
		w.Header().Set("Content-Type", string(format))
		encoder := expfmt.NewEncoder(w, format)
		for _, f := range figures(stats()) {
			if len(f.Metric) > 0 && encoder.Encode(f) != nil {
				return // the client is gone
			}
		}
	})
}

// figures are a server's figures, as Prometheus has them.
func figures(s pipeline.Stats) []*dto.MetricFamily {
	runs := family("sandboxmcp_runs_total", dto.MetricType_COUNTER, "Runs that have ended, by how.")
	for ended, n := range s.Runs {
		runs.add(float64(n), "ended", ended)
	}
	duration := family("sandboxmcp_run_duration_seconds", dto.MetricType_GAUGE, "From request to result, of the last 1,000 runs.")
	for quantile, ms := range map[float64]float64{0.5: s.P50, 0.9: s.P90, 0.99: s.P99} {
		duration.add(ms/1000, "quantile", strconv.FormatFloat(quantile, 'f', -1, 64))
	}
	queue := family("sandboxmcp_queue_runs", dto.MetricType_GAUGE, "Runs that have a slot, or wait for one.")
	queue.add(float64(s.Running), "state", "running")
	queue.add(float64(s.Waiting), "state", "waiting")
	slots := family("sandboxmcp_queue_slots", dto.MetricType_GAUGE, "Runs that may go on at once.")
	slots.add(float64(s.Slots))
	sessions := family("sandboxmcp_sessions", dto.MetricType_GAUGE, "Sessions, by state.")
	for state, n := range s.Sessions {
		sessions.add(float64(n), "state", state)
	}
	jobs := family("sandboxmcp_background_runs", dto.MetricType_GAUGE, "Runs in the background that still run.")
	jobs.add(float64(s.Jobs))
	pools := family("sandboxmcp_pool_requests_total", dto.MetricType_COUNTER, "Programs that found a sandbox ready (hit), or did not (miss).")
	for _, p := range s.Pools {
		pools.add(float64(p.Hits), "backend", p.Backend, "language", p.Language, "result", "hit")
		pools.add(float64(p.Misses), "backend", p.Backend, "language", p.Language, "result", "miss")
	}
	return []*dto.MetricFamily{runs.MetricFamily, duration.MetricFamily, queue.MetricFamily, slots.MetricFamily, sessions.MetricFamily, jobs.MetricFamily, pools.MetricFamily}
}

type metricFamily struct{ *dto.MetricFamily }

func family(name string, kind dto.MetricType, help string) metricFamily {
	return metricFamily{&dto.MetricFamily{Name: &name, Help: &help, Type: &kind}}
}

// add adds a value with labels, which are pairs of names and values.
func (f metricFamily) add(v float64, labels ...string) {
	m := &dto.Metric{}
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	if f.GetType() == dto.MetricType_COUNTER {
		m.Counter = &dto.Counter{Value: &v}
	} else {
		m.Gauge = &dto.Gauge{Value: &v}
	}
	f.Metric = append(f.Metric, m)
}
