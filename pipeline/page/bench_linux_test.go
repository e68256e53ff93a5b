package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// fill writes rows to the log as runs do: starts, ends and decisions, of some namespaces.
func (s *server) fill(rows int) {
	s.t.Helper()
	batch := make([]audit.Entry, 0, 1000)
	for i := range rows {
		e := audit.Entry{Kind: "execution.started", Run: fmt.Sprintf("01K%023d", i/5), Namespace: fmt.Sprint("team-", i%7), Soon: true,
			Data: map[string]any{
				"name": fmt.Sprintf("report-%d.py", i%40), "language": "python", "backend": "process", "profile": "hardened", "client": "agent-of-team",
				"code_sha256":   strings.Repeat("9f86d081", 8),
				"layers":        []string{"user", "mount", "pid", "net", "ipc", "landlock", "seccomp", "caps", "cgroup"},
				"inputs_sha256": strings.Repeat("2c26b46b", 8),
				"ended":         "ok", "wall_ms": i % 900, "cpu_ms": i % 300, "peak_memory": 9<<20 + i}}
		switch i % 5 {
		case 1, 4:
			e.Kind = "execution.completed"
		case 2:
			e.Kind, e.Data = "egress.approved", map[string]any{"name": fmt.Sprintf("host-%d.example.com", i%300), "port": 443, "reason": "allowed"}
		}
		if batch = append(batch, e); len(batch) == cap(batch) || i == rows-1 {
			_, err := s.log.Append(s.t.Context(), batch...)
			must(s.t, err)
			batch = batch[:0]
		}
	}
}

// paints are the moments of a page's way to the screen, in milliseconds from the click on.
type paints struct{ Response, Ready, Paint float64 }

// BenchmarkFirstPaint measures how long the screens take to be seen, with a log of 100,000 rows.
func BenchmarkFirstPaint(b *testing.B) {
	s := serve(b)
	s.fill(100_000)
	c := browse(b, s, boss)
	for _, path := range []string{"ran", "ran?rows=all", "ran?text=report-7", "charts", "policy", "./"} {
		b.Run(path, func(b *testing.B) {
			var all []paints
			for b.Loop() {
				c.evaluate(`document.body.dataset.left = "yes"; location.href = ` + fmt.Sprintf("%q", path))
				c.until("it has painted", `!document.body.dataset.left && performance.getEntriesByName("first-contentful-paint").length === 1`)
				var p paints
				must(b, json.Unmarshal([]byte(c.evaluate(`(() => { const n = performance.getEntriesByType("navigation")[0];
					return {Response: n.responseEnd, Ready: n.domContentLoadedEventEnd, Paint: performance.getEntriesByName("first-contentful-paint")[0].startTime}; })()`)), &p))
				all = append(all, p)
			}
			slices.SortFunc(all, func(x, y paints) int { return int(1000 * (x.Paint - y.Paint)) })
			mid := all[len(all)/2]
			b.ReportMetric(mid.Response, "answered-ms")
			b.ReportMetric(mid.Ready, "ready-ms")
			b.ReportMetric(mid.Paint, "paint-ms")
			b.ReportMetric(all[len(all)-1].Paint, "longest-ms")
		})
	}

}
