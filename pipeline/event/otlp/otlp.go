// Package otlp tells an OpenTelemetry collector of runs: a trace each, with a span for each stage, and
// metrics. It is the place of go.opentelemetry.io/otel, whose SDK makes them and batches; the protocol
// is OTLP over HTTP.
//
// It listens to events like everybody else, so nothing waits for it: what a slow or dead collector
// does not take is dropped, whole traces at a time, and counted. Nothing of otel's global state is used.
// Of its variables, those count that say how things are sent, after Start: OTEL_EXPORTER_OTLP_HEADERS and
// OTEL_EXPORTER_OTLP_COMPRESSION, also for one signal, and OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE.
package otlp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// Config names the collector, and what it is sent.
type Config struct {
	URL      string     // of the collector, such as http://localhost:4318; /v1/traces and /v1/metrics are below it
	Sessions func() int // how many live just now; nil: that is not told
	Bus      *event.Bus
	Log      *slog.Logger // nil says nothing
	Version  string       // of sandboxmcp
}

const (
	buffered = 4096 // events that wait to be counted
	scope    = "github.com/sandboxmcp/sandboxmcp"
)

// pace is how often something is sent, and how long that may take.
type pace struct {
	traces, metrics time.Duration // between two requests
	answer          time.Duration // for one request
	closeTimeout    time.Duration // for all of Close
}

var usual = pace{traces: 2 * time.Second, metrics: 30 * time.Second, answer: 10 * time.Second, closeTimeout: 4500 * time.Millisecond}

// Exporter tells the collector until it is closed.
type Exporter struct {
	pace    pace
	sub     *event.Subscription
	traces  *traces
	metrics *metrics
	all     sync.WaitGroup
	quit    func() // ends what is under way
	closed  sync.Once
	client  *http.Client
	lost    atomic.Uint64 // traces
}

// Start begins to tell. Its errors are about c: that nobody answers is none.
func Start(c Config) (*Exporter, error) { return start(c, usual) }

func start(c Config, p pace) (*Exporter, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	to, err := url.Parse(c.URL)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" || to.User != nil || to.RawQuery != "" {
		return nil, errors.New("the address of the OpenTelemetry collector is not one like http://localhost:4318")
	}
	ctx, quit := context.WithCancel(context.Background())
	x := &Exporter{pace: p, quit: quit, client: event.Client(nil, p.answer)}
	if err := x.open(ctx, c, strings.TrimSuffix(c.URL, "/")); err != nil {
		quit()
		return nil, fmt.Errorf("prepare for the OpenTelemetry collector: %w", err)
	}
	x.sub, _, _ = c.Bus.Listen(event.Filter{Namespace: event.All}, buffered, 0)
	x.all.Go(func() {
		for e := range x.sub.Events() {
			x.metrics.count(e)
			if isEnd(e.Name) && !x.traces.tell(e) {
				x.lost.Add(1)
			}
		}
	})
	return x, nil
}

// open makes both exporters. quit, the end of ctx, ends their requests.
func (x *Exporter) open(ctx context.Context, c Config, base string) error {
	out := &spans{sender: newSender(ctx, x.client, c.Log, base, "traces")}
	exporter, err := otlptrace.New(ctx, out)
	if err != nil {
		return err
	}
	points := points{newSender(ctx, x.client, c.Log, base, "metrics"), strings.ToLower(os.Getenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"))}
	who := resource.NewSchemaless(attribute.String("service.name", "sandboxmcp"), attribute.String("service.version", c.Version),
		attribute.String("service.instance.id", rand.Text()))
	x.traces = newTraces(who, exporter, out, x.pace)
	x.metrics, err = newMetrics(who, points, x.pace, source{sessions: c.Sessions, events: c.Bus.Dropped, traces: x.Dropped})
	return err
}

// Dropped returns how many runs have no trace at the collector, as far as we know.
func (x *Exporter) Dropped() uint64 { return x.lost.Load() + x.traces.out.lost.Load() }

// Close sends what has not been sent yet, for at most five seconds. It may be called more than once.
func (x *Exporter) Close() {
	x.closed.Do(func() {
		x.sub.Cancel()
		x.all.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), x.pace.closeTimeout)
		defer cancel()
		var both sync.WaitGroup
		both.Go(func() { _ = x.traces.provider.Shutdown(ctx) }) // what fails is in the log
		both.Go(func() { _ = x.metrics.provider.Shutdown(ctx) })
		both.Wait()
		x.quit()
		x.client.CloseIdleConnections()
	})
}

// isEnd reports whether an event of this name is a run's last.
func isEnd(name string) bool {
	return name == event.ExecutionCompleted || name == event.ExecutionFailed || name == event.ExecutionTimeout
}
