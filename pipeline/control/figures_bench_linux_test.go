package control

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// BenchmarkFigures sums up a log of 100,000 rows for the first time, as after the start of a server.
func BenchmarkFigures(b *testing.B) {
	log, err := audit.Open(b.Context(), filepath.Join(b.TempDir(), "audit.db"))
	must(b, err)
	b.Cleanup(func() { log.Close() })
	kinds := []string{"execution.started", "execution.completed", "egress.approved", "execution.started", "execution.completed"}
	for from := 0; from < 100_000; from += 1000 {
		var batch []audit.Entry
		for i := from; i < from+1000; i++ {
			batch = append(batch, audit.Entry{Kind: kinds[i%len(kinds)], Run: fmt.Sprint(i / 5), Namespace: fmt.Sprint("team-", i%7), Soon: true,
				Data: map[string]any{
					"name": fmt.Sprintf("host-%d.example.com", i%300), "language": "python", "backend": "process", "profile": "hardened", "ended": "ok",
					"wall_ms": i % 900, "peak_memory": 9<<20 + i,
					"require": []string{"user", "mount", "pid", "net", "ipc", "landlock", "seccomp", "caps"},
					"layers":  []string{"user", "mount", "pid", "net", "ipc", "landlock", "seccomp", "caps", "cgroup"}}})
		}
		_, err := log.Append(b.Context(), batch...)
		must(b, err)
	}
	ctx := identity.With(b.Context(), identity.Identity{Name: "boss", Source: identity.FromPeer, Kind: identity.Person,
		Namespaces: identity.All()})
	for b.Loop() {
		api := New(Config{Records: log})
		for partly := true; partly; {
			f, err := Call(ctx, LocalClient(api), GetFigures, FiguresQuery{Days: 30})
			must(b, err)
			partly = f.Partly
		}
		api.Close()
	}
}
