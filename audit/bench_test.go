package audit

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// data is about as large as the pipeline's row for the end of a run: 600 bytes of JSON.
var data = map[string]any{
	"code_sha256": strings.Repeat("9f86d081", 8), "code_bytes": 1234, "name": "main.py", "language": "python", "backend": "process",
	"profile": "hardened",
	"require": []string{"user", "mount", "pid", "net", "ipc", "landlock", "seccomp", "caps"},
	"layers":  []string{"user", "mount", "pid", "net", "ipc", "landlock", "seccomp", "caps", "cgroup"},
	"limits":  map[string]any{"ram_bytes": 536870912, "wall_seconds": 60, "cpu_cores": 1, "processes": 128, "disk_bytes": 1073741824},
	"ended":   "ok", "exit_code": 0, "wall_ms": 12, "cpu_ms": 9, "peak_memory": 9437184, "queue_us": 11, "artifacts": 0,
	"inputs_sha256": strings.Repeat("2c26b46b", 8),
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, -1, -16} {
		b.Run(fmt.Sprint("writers=", max(writers, -writers), "/signed=", writers < 0), func(b *testing.B) {
			l := openLog(b, logPath(b))
			if writers < 0 {
				writers = -writers
				l = openSigned(b, logPath(b), signing(1000))
			}
			var left sync.WaitGroup
			var mu sync.Mutex
			var took []time.Duration
			work := make(chan struct{}, 1024)
			for range writers {
				left.Go(func() {
					for range work {
						began := time.Now()
						if _, err := l.Append(context.Background(), Entry{Kind: "execution.completed", Run: "01J", Namespace: "default", Data: data}); err != nil {
							b.Error(err)
						}
						mu.Lock()
						took = append(took, time.Since(began))
						mu.Unlock()
					}
				})
			}
			b.ResetTimer()
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			left.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			percentiles(b, took)
		})
	}
}

// BenchmarkReceipt measures the waits of a server's run: the row of its start, and then that of its end, with a
// receipt.
func BenchmarkReceipt(b *testing.B) {
	l := openSigned(b, logPath(b), signing(1000))
	receipt := bytes.Repeat([]byte("r"), 3000)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		for _, e := range []Entry{{Kind: "execution.started", Data: data}, {Kind: "execution.completed", Data: data, Receipt: receipt}} {
			e.Run, e.Namespace = "01J", "default"
			if _, err := l.Append(b.Context(), e); err != nil {
				b.Fatal(err)
			}
		}
		took = append(took, time.Since(began))
	}
	percentiles(b, took)
}

func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs/median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99")
	b.ReportMetric(float64(took[len(took)*999/1000].Microseconds()), "µs/p99.9")
}

// BenchmarkRun measures the log's cost of one run on the command line.
func BenchmarkRun(b *testing.B) {
	for _, signed := range []bool{false, true} {
		b.Run(fmt.Sprint("signed=", signed), func(b *testing.B) {
			path := logPath(b)
			openLog(b, path).Close()
			for b.Loop() {
				var l *Log
				if signed {
					l = openSigned(b, path, signing(1000))
				} else {
					l = openLog(b, path)
				}
				for range 2 {
					if _, err := l.Append(b.Context(), Entry{Kind: "execution.started", Data: data}); err != nil {
						b.Fatal(err)
					}
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, rows := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			l := openSigned(b, logPath(b), signing(1000))
			fillRuns(b, l, rows)
			if _, err := l.Checkpoint(b.Context()); err != nil {
				b.Fatal(err)
			}
			o := VerifyOptions{Keys: keys('a')}
			for b.Loop() {
				if r, err := l.Verify(b.Context(), o); err != nil || r.Bad != nil || r.Rows < int64(rows) {
					b.Fatal(r, err)
				}
			}
		})
	}
}
