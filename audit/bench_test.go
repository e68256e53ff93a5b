package audit

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// data is about as large as what the pipeline writes for the end of a run.
var data = map[string]any{
	"code": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "exit": 0, "ended": "ok",
	"layers": []string{"user", "mount", "pid", "net", "ipc", "landlock", "seccomp", "caps"}, "ms": 12,
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			l := openLog(b, logPath(b))
			var left sync.WaitGroup
			work := make(chan struct{}, 1024)
			for range writers {
				left.Go(func() {
					for range work {
						if _, err := l.Append(context.Background(), Entry{Kind: "execution.completed", Run: "01J", Namespace: "default", Data: data}); err != nil {
							b.Error(err)
						}
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
		})
	}
}

// BenchmarkRun is what one run on the command line pays.
func BenchmarkRun(b *testing.B) {
	path := logPath(b)
	openLog(b, path).Close()
	for b.Loop() {
		l, err := Open(b.Context(), path)
		if err != nil {
			b.Fatal(err)
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
}

func BenchmarkVerify(b *testing.B) {
	for _, rows := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			l := openLog(b, logPath(b))
			entries := make([]Entry, 1000)
			for i := range entries {
				entries[i] = Entry{Kind: "execution.completed", Run: fmt.Sprint("01J", i), Namespace: "default", Data: data}
			}
			for range rows / len(entries) {
				if _, err := l.Append(b.Context(), entries...); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if r, err := l.Verify(b.Context()); err != nil || r.Bad != nil || r.Rows != int64(rows) {
					b.Fatal(r, err)
				}
			}
		})
	}
}
