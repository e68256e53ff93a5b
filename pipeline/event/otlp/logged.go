package otlp

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

// complaint writes what goes wrong to the log, and not too often. The SDK would write it to stderr by
// itself, by a handler that is global.
type complaint struct {
	log   *slog.Logger
	about string
	mu    sync.Mutex
	next  time.Time
	more  int
}

func (c *complaint) say(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.next) {
		c.log.Warn("otlp: the collector did not take "+c.about, "error", err, "times_before", c.more)
		c.next, c.more = now.Add(time.Minute), 0
		return
	}
	c.more++
}

// loggedSpans is an exporter that keeps its errors to itself. Its quit ends what is under way.
type loggedSpans struct {
	trace.SpanExporter
	quit context.Context
	complaint
	done atomic.Int64  // spans that it holds no more
	lost atomic.Uint64 // of these, runs that the collector did not take
}

func (l *loggedSpans) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.quit, cancel)()
	err := l.SpanExporter.ExportSpans(ctx, spans)
	l.done.Add(int64(len(spans)))
	if err == nil {
		return nil
	}
	for _, s := range spans {
		if !s.Parent().IsValid() {
			l.lost.Add(1)
		}
	}
	l.say(err)
	return nil
}

// loggedPoints is the same for metrics.
type loggedPoints struct {
	metric.Exporter
	quit context.Context
	complaint
}

func (l *loggedPoints) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.quit, cancel)()
	if err := l.Exporter.Export(ctx, m); err != nil {
		l.say(err)
	}
	return nil
}
