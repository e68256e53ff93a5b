package otlp

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// collector decodes what it is sent.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics map[string]*metricspb.Metric // the last of each name
	who     map[string]string            // the resource
	bad     []string
	header  http.Header
}

func collect(t *testing.T, refuse func(w http.ResponseWriter, r *http.Request) bool) *collector {
	c := &collector{metrics: map[string]*metricspb.Metric{}, who: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse == nil || !refuse(w, r) {
			c.take(r)
		}
	}))
	t.Cleanup(func() { c.CloseClientConnections(); c.Close() })
	return c
}

func (c *collector) take(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	c.header = r.Header
	var traces tracepb.TracesData
	var metrics metricspb.MetricsData
	switch {
	case err != nil:
	case r.URL.Path == "/v1/traces":
		err = proto.Unmarshal(body, &traces)
	case r.URL.Path == "/v1/metrics":
		err = proto.Unmarshal(body, &metrics)
	default:
		err = fmt.Errorf("path %s", r.URL.Path)
	}
	if err != nil {
		c.bad = append(c.bad, err.Error())
	}
	for _, rs := range traces.ResourceSpans {
		c.know(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	for _, rm := range metrics.ResourceMetrics {
		c.know(rm.Resource.Attributes)
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				c.metrics[m.Name] = m
			}
		}
	}
}

func (c *collector) know(list []*common.KeyValue) {
	for k, v := range values(list) {
		c.who[k] = v
	}
}

func values(list []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.Key] = fmt.Sprint(v.IntValue)
		default:
			m[kv.Key] = fmt.Sprint(kv.Value)
		}
	}
	return m
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func export(t *testing.T, c Config) (*Exporter, *event.Bus, *lines) {
	t.Helper()
	logged := &lines{}
	c.Bus, c.Log = event.NewBus(), slog.New(slog.NewTextHandler(logged, nil))
	x, err := start(c, pace{traces: 20 * time.Millisecond, metrics: time.Hour, answer: 10 * time.Minute, closeTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x, c.Bus, logged
}

// an end of a run that began at this time.
func end(run string, began time.Time) event.Event {
	return event.Event{Name: event.ExecutionCompleted, Run: run, Namespace: "team", Time: began.Add(100 * time.Millisecond), Data: map[string]any{
		"language": "python", "backend": "process", "profile": "hardened", "ended": "exit", "exit_code": 3, "peak_memory": int64(12 << 20),
		"missing_layers": []string{"cgroup"}, "began": began.UTC().Format(time.RFC3339Nano),
		"timings_us": map[string]int64{"validate": 1000, "queue": 20_000, "vault": 0, "egress": 5, "start": 3000, "exec": 60_000, "sign": 2000},
	}}
}

func TestTrace(t *testing.T) {
	c := collect(t, nil)
	x, bus, logged := export(t, Config{URL: c.URL + "/", Version: "1.2"})
	began := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	bus.Publish(end("RUN1", began))
	x.Close()
	if len(c.bad) > 0 || logged.String() != "" || c.who["service.name"] != "sandboxmcp" || c.who["service.version"] != "1.2" {
		t.Fatalf("bad: %v, log %s, resource %v", c.bad, logged, c.who)
	}
	sum := sha256.Sum256([]byte("RUN1"))
	at := func(ns uint64) time.Duration { return time.Unix(0, int64(ns)).Sub(began) }
	var root *tracepb.Span
	for _, s := range c.spans {
		if len(s.ParentSpanId) == 0 {
			root = s
		}
		if !bytes.Equal(s.TraceId, sum[:16]) {
			t.Errorf("%s: trace %x", s.Name, s.TraceId)
		}
	}
	if root == nil || root.Name != "run python" || at(root.StartTimeUnixNano) != 0 || at(root.EndTimeUnixNano) != 100*time.Millisecond || root.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Fatalf("root %+v of %d spans", root, len(c.spans))
	}
	got := values(root.Attributes)
	for k, v := range map[string]string{"sandboxmcp.run.id": "RUN1", "sandboxmcp.namespace": "team", "sandboxmcp.language": "python", "sandboxmcp.backend": "process",
		"sandboxmcp.profile": "hardened", "sandboxmcp.ended": "exit", "process.exit.code": "3", "sandboxmcp.memory.peak": fmt.Sprint(12 << 20)} {
		if got[k] != v {
			t.Errorf("attribute %s: %q, want %q", k, got[k], v)
		}
	}
	want := map[string][2]int{ // microseconds since began
		"validate": {0, 1000}, "queue": {1000, 21_000}, "vault": {21_000, 21_000}, "egress": {21_000, 21_005}, "start": {21_005, 24_005},
		"exec": {24_005, 84_005}, "sign": {84_005, 86_005}, "audit": {86_005, 100_000},
	}
	if len(c.spans) != len(want)+1 {
		t.Errorf("%d spans, want %d", len(c.spans), len(want)+1)
	}
	for _, s := range c.spans {
		if s == root {
			continue
		}
		is := [2]int{int(at(s.StartTimeUnixNano).Microseconds()), int(at(s.EndTimeUnixNano).Microseconds())}
		if w, ok := want[s.Name]; !ok || is != w || !bytes.Equal(s.ParentSpanId, root.SpanId) {
			t.Errorf("%s: %v of %s, want %v of the run's", s.Name, is, hex.EncodeToString(s.ParentSpanId), w)
		}
	}
}

// TestTraceOfWhatDidNotRun has fewer spans, a status, and is no longer than it can be.
func TestTraceOfWhatDidNotRun(t *testing.T) {
	now := time.Now().UTC()
	for name, tt := range map[string]struct {
		e     event.Event
		spans []string
		kind  string
	}{
		"refused": {event.Event{Name: event.ExecutionFailed, Data: map[string]any{"stage": "vault", "ended": "refused", "language": "python",
			"began": now.Add(-time.Second).Format(time.RFC3339Nano), "timings_us": map[string]int64{"validate": 10, "queue": 20, "vault": 30, "exec": 0}}},
			[]string{"audit", "queue", "run python", "validate", "vault"}, "refused"},
		"broken":        {event.Event{Name: event.ExecutionFailed, Data: map[string]any{"stage": "backend"}}, []string{"run other"}, "failed"},
		"timeout":       {event.Event{Name: event.ExecutionTimeout, Data: map[string]any{"ended": "timeout", "language": "cobol\n"}}, []string{"run other"}, "timeout"},
		"a clock apart": {event.Event{Name: event.ExecutionTimeout, Time: now, Data: map[string]any{"ended": "timeout", "began": now.Add(time.Hour).Format(time.RFC3339Nano)}}, []string{"run other"}, "timeout"},
		"nonsense":      {event.Event{Name: event.ExecutionFailed, Data: map[string]any{"ended": 7, "began": 3, "timings_us": "x", "exit_code": "0"}}, []string{"run other"}, "failed"},
	} {
		c := collect(t, nil)
		x, bus, _ := export(t, Config{URL: c.URL})
		bus.Publish(tt.e)
		x.Close()
		var names []string
		for _, s := range c.spans {
			names = append(names, s.Name)
			if s.EndTimeUnixNano < s.StartTimeUnixNano {
				t.Errorf("%s: %s ends before it begins", name, s.Name)
			}
			if len(s.ParentSpanId) == 0 && (s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || values(s.Attributes)["error.type"] != tt.kind) {
				t.Errorf("%s: status %v, %v", name, s.Status, values(s.Attributes))
			}
		}
		if slices.Sort(names); !slices.Equal(names, tt.spans) {
			t.Errorf("%s: spans %v, want %v", name, names, tt.spans)
		}
	}
}

func TestMetrics(t *testing.T) {
	c := collect(t, nil)
	x, bus, _ := export(t, Config{URL: c.URL, Sessions: func() int { return 3 }})
	began := time.Now()
	for i := range 5 {
		bus.Publish(end(fmt.Sprint("R", i), began))
	}
	for i := range 2000 { // what callers make up
		bus.Publish(event.Event{Name: event.ExecutionFailed, Data: map[string]any{"ended": "refused", "language": fmt.Sprint("made up ", i)}})
	}
	bus.Publish(event.Event{Name: event.EgressDenied, Data: map[string]any{"name": "x.example"}})
	bus.Publish(event.Event{Name: event.EgressDenied, Data: map[string]any{"name": "y.example"}})
	bus.Publish(event.Event{Name: event.EgressApproved, Data: map[string]any{"what": "z.example"}})
	listening, _, _ := bus.Listen(event.Filter{Namespace: event.All}, 1, 0)
	slow := listening.Events()
	for range 4 {
		bus.Publish(event.Event{Name: event.VaultAccessed})
	}
	_ = slow
	x.Close()
	sums := func(name string) map[string]int64 {
		m := map[string]int64{}
		for _, p := range c.metrics[name].GetSum().GetDataPoints() {
			var words []string
			for _, v := range values(p.Attributes) {
				words = append(words, v)
			}
			slices.Sort(words)
			m[strings.Join(words, " ")] = p.GetAsInt()
		}
		return m
	}
	for name, want := range map[string]map[string]int64{
		"sandboxmcp.runs":             {"exit process python": 5, " other refused": 2000},
		"sandboxmcp.egress.decisions": {"denied policy": 2, "approved person": 1},
		"sandboxmcp.events.dropped":   {"": 3},
		"sandboxmcp.sessions":         {"": 3},
	} {
		if got := sums(name); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string][2]float64{"sandboxmcp.run.duration": {5, 0.5}, "sandboxmcp.queue.wait": {5, 0.1}, "sandboxmcp.run.memory.peak": {5, 5 * 12 << 20}} {
		points := c.metrics[name].GetHistogram().GetDataPoints()
		if len(points) != 1 || points[0].Count != uint64(want[0]) || points[0].GetSum() < want[1]*0.999 || points[0].GetSum() > want[1]*1.001 {
			t.Errorf("%s: %v, want %v", name, points, want)
		}
	}
}

// TestCollectorThatRefuses is a matter for the log, once, and not for stderr.
func TestCollectorThatRefuses(t *testing.T) {
	other := collect(t, nil)
	for name, refuse := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"401": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(401); return true },
		"redirect": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		},
		"hangs up": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"floods": func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-protobuf")
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return true
				}
			}
		},
	} {
		c := collect(t, refuse)
		x, bus, logged := export(t, Config{URL: c.URL})
		for i := range 3 {
			bus.Publish(end(fmt.Sprint(i), time.Now()))
			hosttest.Until(t, "it is dropped", func() bool { return x.Dropped() == uint64(i+1) })
		}
		x.Close()
		if strings.Count(logged.String(), "did not take traces") != 1 || len(other.spans) != 0 || x.Dropped() != 3 {
			t.Errorf("%s: %d dropped, %d spans went elsewhere, the log has %s", name, x.Dropped(), len(other.spans), logged)
		}
	}
}

// TestDeadCollector publishes what 10,000 runs do while the collector hangs for longer than any test. Nothing waits,
// memory stays bounded, and Close ends.
func TestDeadCollector(t *testing.T) {
	before := runtime.NumGoroutine()
	stuck := collect(t, func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	})
	x, bus, _ := export(t, Config{URL: stuck.URL})
	x.pace.closeTimeout = 100 * time.Millisecond
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	const runs, each = 10_000, 5
	for i := range runs {
		for range each - 1 {
			bus.Publish(event.Event{Name: event.EgressApproved, Data: map[string]any{"name": "x.example"}})
		}
		bus.Publish(end(fmt.Sprint(i), time.Now()))
	}
	hosttest.Until(t, "some are dropped", func() bool { return x.Dropped() > 0 })
	runtime.GC()
	runtime.ReadMemStats(&m1)
	grown := int64(m1.HeapAlloc) - int64(m0.HeapAlloc)
	t.Logf("%d KiB more on the heap, %d traces and %d events dropped", grown>>10, x.Dropped(), bus.Dropped())
	if grown > 48<<20 {
		t.Errorf("it took %d KiB", grown>>10)
	}
	x.Close()
	stuck.CloseClientConnections()
	stuck.Close()
	hosttest.Until(t, "its goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// TestNothingGlobal is changed, and the environment decides nothing but what the exporters are for.
func TestNothingGlobal(t *testing.T) {
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "x-team=a", "OTEL_TRACES_SAMPLER": "always_off", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
		"OTEL_SERVICE_NAME": "other", "OTEL_BSP_MAX_QUEUE_SIZE": "1", "OTEL_SDK_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	provider, meter := otel.GetTracerProvider(), otel.GetMeterProvider()
	c := collect(t, nil)
	x, bus, _ := export(t, Config{URL: c.URL})
	bus.Publish(end("R", time.Now()))
	x.Close()
	if len(c.spans) != 9 || c.who["service.name"] != "sandboxmcp" || c.header.Get("X-Team") != "a" {
		t.Errorf("%d spans, %v, %v", len(c.spans), c.who, c.header)
	}
	if otel.GetTracerProvider() != provider || otel.GetMeterProvider() != meter {
		t.Error("a global provider was set")
	}
}

func TestStartRefuses(t *testing.T) {
	for _, url := range []string{"", "localhost:4318", "grpc://localhost:4317", "http://me:x@localhost:4318", "http://", "http://localhost:4318/?a=b", "http://%zz"} {
		if x, err := Start(Config{URL: url, Bus: event.NewBus()}); err == nil {
			x.Close()
			t.Errorf("%q is taken", url)
		}
	}
}

// TestText of a run may be no text, and long: its trace comes, and those of other runs.
func TestText(t *testing.T) {
	c := collect(t, nil)
	x, bus, logged := export(t, Config{URL: c.URL})
	e := end("R", time.Now())
	e.Name, e.Data["ended"], e.Data["limit"] = event.ExecutionFailed, "limit\xff", strings.Repeat("é", 2*maxText)
	bus.Publish(e)
	bus.Publish(end("S", time.Now()))
	x.Close()
	if len(c.spans) != 18 || len(c.bad) > 0 || logged.String() != "" {
		t.Fatalf("%d spans, bad %v, the log has %s", len(c.spans), c.bad, logged)
	}
	for _, s := range c.spans {
		if v := values(s.Attributes); v["sandboxmcp.ended"] == "limit\uFFFD" && v["sandboxmcp.limit"] == strings.Repeat("é", maxText) {
			return
		}
	}
	t.Errorf("no run has its texts: %v", c.spans)
}
