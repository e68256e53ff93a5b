package mcp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/status"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
)

const aboutStats = `Shows the server's statistics: runs, queue, sessions, durations, and use of warm sandboxes.`

// statsArgs is not empty: Gemini refuses tools without parameters.
type statsArgs struct {
	Namespace string `json:"namespace" about:"Counts sessions and background runs of this namespace only. Default: all that the caller may see." range:"..64"`
}

type statsFacts struct {
	answer.Common
	Uptime   float64          `json:"uptime_seconds" about:"Seconds since the server started."`
	Running  int              `json:"running" about:"Used slots."`
	Waiting  int              `json:"waiting" about:"Requests waiting for a slot."`
	Slots    int              `json:"slots" about:"Number of slots."`
	Runs     map[string]int64 `json:"runs,omitempty" about:"Number of runs by how they ended."`
	Sessions map[string]int   `json:"sessions,omitempty" about:"Number of sessions by state."`
	Jobs     int              `json:"background_runs" about:"Running background runs."`
	P50      float64          `json:"p50_ms" about:"Median duration of recent runs in milliseconds."`
	P90      float64          `json:"p90_ms" about:"90th percentile of recent runs in milliseconds."`
	P99      float64          `json:"p99_ms" about:"99th percentile of recent runs in milliseconds."`
	Pools    []poolFacts      `json:"pools,omitempty" about:"Warm sandboxes, each for one future run."`
}

func (s *Server) sandboxStats(_ context.Context, c *call, _ *statsArgs) (*answer.Answer, error) {
	n := status.Now(s.cfg.Pipeline)
	if c.oneNamespace {
		n = status.NowOf(s.cfg.Pipeline, func(namespace string) bool { return namespace == c.namespace })
	}
	f := &statsFacts{Uptime: time.Since(n.Began).Seconds(), Running: n.Running, Waiting: n.Waiting, Slots: n.Slots,
		Runs: n.Runs, Sessions: n.Sessions, Jobs: n.Jobs, P50: n.P50, P90: n.P90, P99: n.P99, Pools: poolsOf(n.Pools)}
	text := fmt.Sprintf("up for %s; %d of %d slots taken, %d waiting; %s in the background\nruns: %s\nsessions: %s\ntimes: p50 %.1f ms, "+
		"p90 %.1f ms, p99 %.1f ms%s",
		time.Since(n.Began).Round(time.Second), n.Running, n.Slots, n.Waiting, answer.Count(n.Jobs, "run"), countText(n.Runs),
		countText(n.Sessions), n.P50, n.P90, n.P99, poolLines(n.Pools))
	return &answer.Answer{Text: text, Facts: f}, nil
}

// countText lists the counts by name.
func countText[N int | int64](all map[string]N) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, all[name]))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

type poolFacts struct {
	Backend  string           `json:"backend" about:"The isolation backend."`
	Language string           `json:"language" about:"Their language."`
	Ready    int              `json:"ready" about:"Warm sandboxes."`
	Memory   int64            `json:"memory_bytes,omitempty" about:"Their memory in bytes, if known."`
	Hits     int64            `json:"hits" about:"Runs that used a warm sandbox."`
	Misses   int64            `json:"misses" about:"Runs that started cold."`
	HitRate  float64          `json:"hit_rate" about:"Share of hits, from 0 to 1."`
	Cold     map[string]int64 `json:"cold,omitempty" about:"Number of misses by reason, for the most frequent reasons."`
}

func poolsOf(all []status.Pool) (list []poolFacts) {
	for _, p := range all {
		list = append(list, poolFacts{p.Backend, p.Language, p.Ready, p.Memory, p.Hits, p.Misses, math.Round(p.HitRate()*1000) / 1000,
			topReasons(p.Cold)})
	}
	return list
}

// maxReasons bounds the reasons for cold starts: they contain variable names chosen by callers.
const maxReasons = 5

// topReasons returns the most frequent reasons.
func topReasons(cold map[string]int64) map[string]int64 {
	names := slices.SortedFunc(maps.Keys(cold), func(a, b string) int { return cmp.Or(cmp.Compare(cold[b], cold[a]), cmp.Compare(a, b)) })
	few := map[string]int64{}
	for _, name := range names[:min(len(names), maxReasons)] {
		few[safetext.Clip(answer.OneLine(name), 200)] += cold[name]
	}
	return few
}

// poolLines returns a line for each pool, after a newline.
func poolLines(all []status.Pool) string {
	var b strings.Builder
	for _, p := range all {
		memory := ""
		if p.Memory > 0 { // else unknown
			memory = " in " + answer.Size(p.Memory)
		}
		fmt.Fprintf(&b, "\npool of %s (%s): %d ready%s; %d of %d runs used it (%.0f %%)",
			p.Language, p.Backend, p.Ready, memory, p.Hits, p.Hits+p.Misses, 100*p.HitRate())
		if len(p.Cold) > 0 {
			fmt.Fprintf(&b, "; cold starts: %s", countText(topReasons(p.Cold)))
		}
	}
	return b.String()
}
