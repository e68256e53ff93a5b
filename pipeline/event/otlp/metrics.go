package otlp

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// maxSeries bounds the combinations of attributes of one metric.
const maxSeries = 500

// Bounds of histograms, in seconds and in bytes.
var (
	durations = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900}
	waits     = []float64{0.001, 0.01, 0.1, 0.5, 1, 5, 30, 120}
	sizes     = []float64{8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30, 2 << 30, 4 << 30}
)

// source is what is asked when metrics are sent.
type source struct {
	sessions func() int // may be nil
	events   func() uint64
	traces   func() uint64
}

type metrics struct {
	provider       *sdk.MeterProvider
	runs           metric.Int64Counter
	duration, wait metric.Float64Histogram
	memory         metric.Int64Histogram
	egress         metric.Int64Counter
}

func newMetrics(who *resource.Resource, out sdk.Exporter, p pace, from source) (*metrics, error) {
	m := &metrics{provider: sdk.NewMeterProvider(sdk.WithResource(who), sdk.WithCardinalityLimit(maxSeries), sdk.WithExemplarFilter(exemplar.AlwaysOffFilter),
		sdk.WithReader(sdk.NewPeriodicReader(out, sdk.WithInterval(p.metrics), sdk.WithTimeout(p.answer))))}
	meter := m.provider.Meter(scope)
	var errs [6]error
	m.runs, errs[0] = meter.Int64Counter("sandboxmcp.runs", metric.WithUnit("{run}"), metric.WithDescription("runs that have ended"))
	m.duration, errs[1] = meter.Float64Histogram("sandboxmcp.run.duration", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(durations...),
		metric.WithDescription("from the request to the record of its end"))
	m.wait, errs[2] = meter.Float64Histogram("sandboxmcp.queue.wait", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(waits...),
		metric.WithDescription("how long a run waits for its turn"))
	m.memory, errs[3] = meter.Int64Histogram("sandboxmcp.run.memory.peak", metric.WithUnit("By"), metric.WithExplicitBucketBoundaries(sizes...),
		metric.WithDescription("the most memory that a run's processes took together"))
	m.egress, errs[4] = meter.Int64Counter("sandboxmcp.egress.decisions", metric.WithUnit("{decision}"), metric.WithDescription("what was said about names to connect to"))
	errs[5] = observe(meter, from)
	return m, errors.Join(errs[:]...)
}

// observe registers callbacks that read other counters when metrics are sent.
func observe(meter metric.Meter, from source) error {
	count := func(n func() uint64) metric.Int64ObservableCounterOption {
		return metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(n()))
			return nil
		})
	}
	_, err := meter.Int64ObservableCounter("sandboxmcp.events.dropped", metric.WithUnit("{event}"),
		metric.WithDescription("events that some listener was too slow for"), count(from.events))
	if err != nil {
		return err
	}
	_, err = meter.Int64ObservableCounter("sandboxmcp.traces.dropped", metric.WithUnit("{trace}"),
		metric.WithDescription("runs whose trace the collector did not take"), count(from.traces))
	if err != nil || from.sessions == nil {
		return err
	}
	_, err = meter.Int64ObservableUpDownCounter("sandboxmcp.sessions", metric.WithUnit("{session}"), metric.WithDescription("sessions that live"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(from.sessions()))
			return nil
		}))
	return err
}

// count adds an event to the metrics.
func (m *metrics) count(e event.Event) {
	ctx := context.Background()
	switch {
	case isEnd(e.Name):
		m.countRun(ctx, e)
	case e.Name == event.EgressApproved || e.Name == event.EgressDenied || e.Name == event.EgressRequested:
		by := "policy"
		if _, asked := e.Data["what"]; asked {
			by = "person"
		}
		m.egress.Add(ctx, 1, metric.WithAttributes(attribute.String("sandboxmcp.decision", e.Name[len("egress."):]), attribute.String("sandboxmcp.by", by)))
	}
}

func (m *metrics) countRun(ctx context.Context, e event.Event) {
	kind := metric.WithAttributes(attribute.String("sandboxmcp.ended", ended(e)),
		attribute.String("sandboxmcp.language", language(e)), attribute.String("sandboxmcp.backend", text(e, "backend")))
	m.runs.Add(ctx, 1, kind)
	began, us := timesOf(e)
	if us == nil {
		return
	}
	m.duration.Record(ctx, e.Time.Sub(began).Seconds(), kind)
	m.wait.Record(ctx, float64(us["queue"])/1e6)
	if bytes, ok := e.Data["peak_memory"].(int64); ok && bytes > 0 {
		m.memory.Record(ctx, bytes, kind)
	}
}
