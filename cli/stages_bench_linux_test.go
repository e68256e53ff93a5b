package cli

import (
	"os"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// BenchmarkDo sends requests through all stages, wired as in a server, and reports the median of each stage.
func BenchmarkDo(b *testing.B) {
	for _, language := range []string{"python", "node", "shell"} {
		code := []byte(map[string]string{"python": "1+1", "node": "1+1", "shell": ":"}[language])
		b.Run("cell/"+language, func(b *testing.B) {
			p := newServerPipeline(b)
			_, opened, err := pipeline.Do(b.Context(), p, session.New{Language: language})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkStages(b, p, run.Request{Where: run.Where{Session: opened.ID}, Code: code})
		})
		b.Run("run/"+language, func(b *testing.B) {
			benchmarkStages(b, newServerPipeline(b), run.Request{Language: language, Code: code})
		})
	}
	for name, code := range map[string]string{"value": "1+1", "plain": "print(1)"} {
		b.Run("shown/"+name, func(b *testing.B) {
			benchmarkStages(b, newServerPipeline(b), run.Request{Language: "python", Code: []byte(code), Show: true})
		})
	}
}

// newServerPipeline returns the pipeline of a server with its state in directories of the benchmark.
func newServerPipeline(b *testing.B) *pipeline.Pipeline {
	b.Setenv("XDG_STATE_HOME", b.TempDir())
	b.Setenv("XDG_CONFIG_HOME", b.TempDir())
	cfg, err := config.Load(config.Options{Env: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	parts, err := wiring.New(b.Context(), cfg, wiring.Purpose{Serve: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { parts.Close() })
	return parts.Pipeline
}

func benchmarkStages(b *testing.B, p *pipeline.Pipeline, q run.Request) {
	took := map[string][]int64{}
	for b.Loop() {
		_, res, err := pipeline.Do(b.Context(), p, q)
		if err != nil || res.Ended != "ok" {
			b.Fatalf("%+v %v", res, err)
		}
		t := res.Timings
		for stage, us := range map[string]int64{"validate": t.Validate, "queue": t.Queue, "vault": t.Vault, "egress": t.Egress,
			"start": t.Start, "exec": t.Exec, "sign": t.Sign, "audit": t.Audit, "total": t.Total, "wall": int64(res.WallMS * 1000)} {
			took[stage] = append(took[stage], us)
		}
	}
	for stage, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2]), "µs-"+stage)
	}
}
