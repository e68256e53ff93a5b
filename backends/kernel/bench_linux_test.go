package kernel

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// BenchmarkCell measures a round trip of a trivial cell in a real sandbox.
func BenchmarkCell(b *testing.B) {
	python(b)
	s := sandboxed(b, "python", backends.Limits{})
	for _, c := range []struct{ name, code string }{{"value", "1"}, {"output", "print(1)"}} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				out, err := s.Run(b.Context(), Cell{Code: c.code, Timeout: time.Second, Stdout: io.Discard})
				if err != nil || out.Ended != "ok" {
					b.Fatalf("%+v %v", out, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
		})
	}
}

// BenchmarkStart starts an interpreter in an existing sandbox.
func BenchmarkStart(b *testing.B) {
	python(b)
	sb := sandbox(b, "python", backends.Limits{})
	for b.Loop() {
		k, err := Start(b.Context(), sb, "python", backends.Command{Main: true})
		if err != nil {
			b.Fatal(err)
		}
		k.Close()
	}
}

// BenchmarkOutput measures the throughput of a cell's output.
func BenchmarkOutput(b *testing.B) {
	python(b)
	s := sandboxed(b, "python", backends.Limits{})
	b.SetBytes(64 << 20)
	for b.Loop() {
		if _, err := s.Run(b.Context(), Cell{Code: "print('x' * (64 << 20))", Timeout: time.Minute, Stdout: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEmptyPythonIsSmall measures a session that has run no cell: a server may have a thousand.
func TestEmptyPythonIsSmall(t *testing.T) {
	sb := newBare(t, map[string]string{"python": python(t)})
	startSession(t, sb, "python")
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", sb.pid))
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nPss:")
	var kB int
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatalf("no Pss in %s", text)
	}
	t.Logf("%d kB", kB)
	if kB > 10<<10 {
		t.Errorf("an empty session takes %d kB", kB)
	}
}
