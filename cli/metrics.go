package cli

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// metricsHandler returns what answers Prometheus with the figures of a server. They are of all namespaces, so that only a person gets
// them who has all.
func metricsHandler(stats func() pipeline.Stats) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(figures{stats}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h := promhttp.HandlerFor(r, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		i, _ := identity.From(req.Context())
		if i.Kind != identity.Person || len(i.Namespaces) > 0 {
			http.Error(w, "figures are for a person who has all namespaces", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, req)
	})
}

// figures collects a server's figures whenever they are asked for.
type figures struct{ stats func() pipeline.Stats }

var (
	runsDesc     = prometheus.NewDesc("sandboxmcp_runs_total", "Runs that have ended, by how.", []string{"ended"}, nil)
	durationDesc = prometheus.NewDesc("sandboxmcp_run_duration_seconds", "From request to result, of the last 1,000 runs.", []string{"quantile"}, nil)
	queueDesc    = prometheus.NewDesc("sandboxmcp_queue_runs", "Runs that have a slot, or wait for one.", []string{"state"}, nil)
	slotsDesc    = prometheus.NewDesc("sandboxmcp_queue_slots", "Runs that may go on at once.", nil, nil)
	sessionsDesc = prometheus.NewDesc("sandboxmcp_sessions", "Sessions, by state.", []string{"state"}, nil)
	jobsDesc     = prometheus.NewDesc("sandboxmcp_background_runs", "Runs in the background that still run.", nil, nil)
	poolDesc     = prometheus.NewDesc("sandboxmcp_pool_requests_total", "Programs that found a sandbox ready (hit), or did not (miss).", []string{"backend", "language", "result"}, nil)
)

// Describe is of prometheus.Collector.
func (f figures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runsDesc, durationDesc, queueDesc, slotsDesc, sessionsDesc, jobsDesc, poolDesc} {
		to <- d
	}
}

// Collect is of prometheus.Collector.
func (f figures) Collect(to chan<- prometheus.Metric) {
	s := f.stats()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for ended, n := range s.Runs {
		count(runsDesc, n, ended)
	}
	gauge(durationDesc, s.P50/1000, "0.5")
	gauge(durationDesc, s.P90/1000, "0.9")
	gauge(durationDesc, s.P99/1000, "0.99")
	gauge(queueDesc, float64(s.Running), "running")
	gauge(queueDesc, float64(s.Waiting), "waiting")
	gauge(slotsDesc, float64(s.Slots))
	for state, n := range s.Sessions {
		gauge(sessionsDesc, float64(n), state)
	}
	gauge(jobsDesc, float64(s.Jobs))
	for _, p := range s.Pools {
		count(poolDesc, int64(p.Hits), p.Backend, p.Language, "hit")
		count(poolDesc, int64(p.Misses), p.Backend, p.Language, "miss")
	}
}
