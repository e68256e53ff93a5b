package otlp

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// spans sends traces. It implements otlptrace.Client.
type spans struct {
	*sender
	done atomic.Int64  // spans that are not held any more
	lost atomic.Uint64 // of these, runs that the collector did not take
}

func (*spans) Start(context.Context) error { return nil }
func (*spans) Stop(context.Context) error  { return nil }

// UploadTraces sends what a request to /v1/traces has: its message has the same fields as TracesData.
func (s *spans) UploadTraces(ctx context.Context, all []*tracepb.ResourceSpans) error {
	taken := s.deliver(ctx, &tracepb.TracesData{ResourceSpans: all})
	for _, of := range all {
		for _, scope := range of.ScopeSpans {
			s.done.Add(int64(len(scope.Spans)))
			for _, one := range scope.Spans {
				if !taken && len(one.ParentSpanId) == 0 {
					s.lost.Add(1)
				}
			}
		}
	}
	return nil
}

// points sends metrics. It implements the SDK's Exporter.
type points struct {
	*sender
	since string // as OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE has it, in lower case
}

// Temporality selects whether a metric counts since the beginning, or since it was sent last.
func (p points) Temporality(kind sdk.InstrumentKind) metricdata.Temporality {
	counts := kind == sdk.InstrumentKindCounter || kind == sdk.InstrumentKindHistogram
	if counts && (p.since == "delta" || p.since == "lowmemory") || kind == sdk.InstrumentKindObservableCounter && p.since == "delta" {
		return metricdata.DeltaTemporality
	}
	return metricdata.CumulativeTemporality
}

// Aggregation leaves the choice to who made the metric.
func (points) Aggregation(kind sdk.InstrumentKind) sdk.Aggregation {
	return sdk.DefaultAggregationSelector(kind)
}

// ForceFlush has nothing to do: nothing waits here.
func (points) ForceFlush(context.Context) error { return nil }

// Shutdown has nothing to end.
func (points) Shutdown(context.Context) error { return nil }

// Export sends what a request to /v1/metrics has: its message has the same fields as MetricsData.
func (p points) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	all := &metricspb.ResourceMetrics{Resource: &resourcepb.Resource{Attributes: labels(m.Resource.Iter())}, SchemaUrl: m.Resource.SchemaURL()}
	for _, s := range m.ScopeMetrics {
		scoped := &metricspb.ScopeMetrics{Scope: &common.InstrumentationScope{Name: s.Scope.Name, Version: s.Scope.Version}, SchemaUrl: s.Scope.SchemaURL}
		for _, one := range s.Metrics {
			metric, err := tell(one)
			if err != nil {
				p.say(err)
				return nil
			}
			scoped.Metrics = append(scoped.Metrics, metric)
		}
		all.ScopeMetrics = append(all.ScopeMetrics, scoped)
	}
	p.deliver(ctx, &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{all}})
	return nil
}

// tell knows the kinds of metrics that newMetrics makes.
func tell(m metricdata.Metrics) (*metricspb.Metric, error) {
	out := &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		sum := &metricspb.Sum{AggregationTemporality: since(d.Temporality), IsMonotonic: d.IsMonotonic}
		for _, p := range d.DataPoints {
			sum.DataPoints = append(sum.DataPoints, &metricspb.NumberDataPoint{
				Attributes: labels(p.Attributes.Iter()), StartTimeUnixNano: at(p.StartTime), TimeUnixNano: at(p.Time),
				Value: &metricspb.NumberDataPoint_AsInt{AsInt: p.Value},
			})
		}
		out.Data = &metricspb.Metric_Sum{Sum: sum}
	case metricdata.Histogram[int64]:
		out.Data = histogram(d)
	case metricdata.Histogram[float64]:
		out.Data = histogram(d)
	default:
		return nil, fmt.Errorf("metric %s is of a kind that is never told, %T: this is a bug", m.Name, d)
	}
	return out, nil
}

func histogram[N int64 | float64](d metricdata.Histogram[N]) *metricspb.Metric_Histogram {
	h := &metricspb.Histogram{AggregationTemporality: since(d.Temporality)}
	for _, p := range d.DataPoints {
		h.DataPoints = append(h.DataPoints, &metricspb.HistogramDataPoint{
			Attributes: labels(p.Attributes.Iter()), StartTimeUnixNano: at(p.StartTime), TimeUnixNano: at(p.Time),
			Count: p.Count, Sum: new(float64(p.Sum)), Min: extreme(p.Min), Max: extreme(p.Max),
			BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
		})
	}
	return &metricspb.Metric_Histogram{Histogram: h}
}

func extreme[N int64 | float64](e metricdata.Extrema[N]) *float64 {
	if v, known := e.Value(); known {
		return new(float64(v))
	}
	return nil
}

func since(t metricdata.Temporality) metricspb.AggregationTemporality {
	if t == metricdata.DeltaTemporality {
		return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
}

func at(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// labels are attributes. We have texts; the SDK adds a yes where there are too many series.
func labels(all attribute.Iterator) (list []*common.KeyValue) {
	for all.Next() {
		a := all.Attribute()
		v := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: a.Value.String()}}
		switch a.Value.Type() {
		case attribute.BOOL:
			v.Value = &common.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		case attribute.INT64:
			v.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		}
		list = append(list, &common.KeyValue{Key: string(a.Key), Value: v})
	}
	return list
}
