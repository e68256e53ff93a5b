package otlp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// maxSpans bounds those that wait for the collector. The SDK's own queue has more room, so that it
// never drops a part of a trace.
const (
	maxSpans = 4500
	sdkSpans = 8192
	maxText  = 1024 // of one attribute
)

// stages of a run, in their order. The last one, the record of its end, has no time of its own in the
// event that it comes before: it lasts until that.
var stages = []string{"validate", "queue", "vault", "egress", "start", "exec", "sign"}

const lastStage = "audit"

type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	out      *spans
	made     int64
}

func newTraces(who *resource.Resource, exporter sdk.SpanExporter, out *spans, p pace) *traces {
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxText
	provider := sdk.NewTracerProvider(sdk.WithResource(who), sdk.WithIDGenerator(ids{}), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithRawSpanLimits(limits),
		sdk.WithBatcher(exporter, sdk.WithMaxQueueSize(sdkSpans), sdk.WithMaxExportBatchSize(512), sdk.WithBatchTimeout(p.traces), sdk.WithExportTimeout(p.answer)))
	return &traces{provider: provider, tracer: provider.Tracer(scope), out: out}
}

// tell makes the trace of the run whose end e is, unless too many wait.
func (t *traces) tell(e event.Event) bool {
	if t.made-t.out.done.Load() > maxSpans {
		return false
	}
	at, us := timesOf(e)
	ctx, root := t.tracer.Start(context.WithValue(context.Background(), runKey{}, e.Run), "run "+language(e),
		trace.WithNewRoot(), trace.WithTimestamp(at), trace.WithAttributes(about(e)...))
	t.made++
	span := func(name string, end time.Time) {
		_, s := t.tracer.Start(ctx, name, trace.WithTimestamp(at))
		s.End(trace.WithTimestamp(end))
		t.made++
		at = end
	}
	_, stopped := e.Data["stage"] // before it had an outcome: what took no time was not come to
	for _, name := range stages {
		if us[name] > 0 || us != nil && !stopped {
			span(name, at.Add(time.Duration(us[name])*time.Microsecond))
		}
	}
	if us != nil {
		span(lastStage, later(at, e.Time))
	}
	if e.Name != event.ExecutionCompleted {
		root.SetStatus(codes.Error, ended(e))
	}
	root.End(trace.WithTimestamp(later(at, e.Time)))
	return true
}

// later is the later of the two: a clock may be set back meanwhile.
func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// timesOf returns the time at which a run began, and how many microseconds its stages took. Without that, it is a
// point.
func timesOf(e event.Event) (began time.Time, us map[string]int64) {
	us, _ = e.Data["timings_us"].(map[string]int64)
	began, err := time.Parse(time.RFC3339Nano, text(e, "began"))
	if err != nil || began.After(e.Time) {
		return e.Time, us
	}
	return began, us
}

// about are the facts of a run that people search for.
func about(e event.Event) []attribute.KeyValue {
	list := []attribute.KeyValue{attribute.String("sandboxmcp.run.id", e.Run), attribute.String("sandboxmcp.namespace", e.Namespace)}
	for _, key := range []string{"language", "backend", "profile", "session", "ended", "signal", "limit"} {
		if s := text(e, key); s != "" {
			list = append(list, attribute.String("sandboxmcp."+key, s))
		}
	}
	if code, ok := e.Data["exit_code"].(int); ok {
		list = append(list, attribute.Int("process.exit.code", code))
	}
	if e.Name != event.ExecutionCompleted {
		list = append(list, attribute.String("error.type", ended(e)))
	}
	if bytes, ok := e.Data["peak_memory"].(int64); ok {
		list = append(list, attribute.Int64("sandboxmcp.memory.peak", bytes))
	}
	if missing, ok := e.Data["missing_layers"].([]string); ok {
		list = append(list, attribute.StringSlice("sandboxmcp.missing_layers", missing))
	}
	return list
}

// ended returns how a run ended. One that broke before its program began says no more than that.
func ended(e event.Event) string {
	return cmp.Or(text(e, "ended"), "failed")
}

// text returns a fact of an event. A collector refuses all that is sent together with a text that is no UTF-8.
func text(e event.Event, key string) string {
	s, _ := e.Data[key].(string)
	return strings.ToValidUTF8(s, "\uFFFD")
}

// language is one of those that there are: what a caller makes up would be a name of its own each time.
func language(e event.Event) string {
	if name, err := validate.Language(text(e, "language")); err == nil {
		return name
	}
	return "other"
}

type runKey struct{}

// ids makes a trace's id from its run's, so that the one is found by the other: the first half of its
// SHA-256.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	run, _ := ctx.Value(runKey{}).(string)
	sum := sha256.Sum256([]byte(run))
	id := trace.TraceID(sum[:16])
	return id, ids{}.NewSpanID(ctx, id)
}

func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	rand.Read(id[:]) // never fails
	return id
}
