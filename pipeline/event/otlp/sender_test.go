package otlp

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// refusal is the answer of a collector that threw some of what it took away.
func refusal(count uint64, why string) []byte {
	inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), count)
	inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), why)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
}

func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		refuse   func(w http.ResponseWriter, asked int32) bool
		asked    int32 // requests for traces
		dropped  uint64
		reported string
	}{
		"takes it": {func(http.ResponseWriter, int32) bool { return false }, 1, 0, ""},
		"busy once": {func(w http.ResponseWriter, asked int32) bool {
			if asked == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return asked == 1
		}, 2, 0, ""},
		"busy for an hour": {func(w http.ResponseWriter, _ int32) bool {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}, 1, 1, "429"},
		"wants nothing": {func(w http.ResponseWriter, _ int32) bool {
			http.Error(w, "no such tenant", http.StatusBadRequest)
			return true
		}, 1, 1, "no such tenant"},
		"throws away": {func(w http.ResponseWriter, _ int32) bool {
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.Write(refusal(9, "too old"))
			return true
		}, 1, 1, "threw away 9 of them: \\\"too old\\\""},
		"throws nothing away": {func(w http.ResponseWriter, _ int32) bool {
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.Write(refusal(0, ""))
			return true
		}, 1, 0, ""},
		"nonsense": {func(w http.ResponseWriter, _ int32) bool {
			w.Header().Set("Content-Type", "application/x-protobuf")
			w.Write([]byte("\x0a\xff\xff\xff"))
			return true
		}, 1, 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			c := collect(t, func(w http.ResponseWriter, r *http.Request) bool {
				return r.URL.Path == "/v1/traces" && tt.refuse(w, asked.Add(1))
			})
			x, bus, logged := export(t, Config{URL: c.URL})
			bus.Publish(end("R", time.Now()))
			x.Close()
			if asked.Load() != tt.asked || x.Dropped() != tt.dropped || !strings.Contains(logged.String(), tt.reported) || tt.reported == "" && logged.String() != "" {
				t.Errorf("asked %d times, %d dropped, the log has %s; want %d, %d, %q", asked.Load(), x.Dropped(), logged, tt.asked, tt.dropped, tt.reported)
			}
		})
	}
}

// Variables say what is sent along, and how.
func TestVariables(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b, x-of = both,,=c", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-of=metrics",
		"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "Delta",
	} {
		t.Setenv(name, value)
	}
	var plain atomic.Int32
	c := collect(t, func(_ http.ResponseWriter, r *http.Request) bool {
		of := map[string]string{"/v1/traces": "both", "/v1/metrics": "metrics"}[r.URL.Path]
		if r.Header.Get("X-Team") != "a b" || r.Header.Get("X-Of") != of || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: headers %v", r.URL.Path, r.Header)
			plain.Add(1)
		}
		return false
	})
	x, bus, logged := export(t, Config{URL: c.URL})
	bus.Publish(end("R", time.Now()))
	x.Close()
	const delta = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	if len(c.spans) != 9 || c.metrics["sandboxmcp.runs"].GetSum().GetAggregationTemporality() != delta || len(c.bad) > 0 || logged.String() != "" {
		t.Errorf("%d spans, %v, bad %v, the log has %s", len(c.spans), c.metrics["sandboxmcp.runs"], c.bad, logged)
	}
}
