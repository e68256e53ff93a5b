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

const aboutStats = `Shows the server's figures: runs, queue, sessions, times, and how many runs found a sandbox ready.`

// statsArgs is not empty: Gemini refuses tools without parameters.
type statsArgs struct {
	Namespace string `json:"namespace" about:"Counts sessions and background runs of this namespace only. Default: of all that the caller may see." range:"..64"`
}

type statsFacts struct {
	answer.Common
	Uptime   float64          `json:"uptime_seconds" about:"Seconds since the server began."`
	Running  int              `json:"running" about:"Slots of the queue that are taken."`
	Waiting  int              `json:"waiting" about:"Requests that wait for a slot."`
	Slots    int              `json:"slots" about:"How many slots there are."`
	Runs     map[string]int64 `json:"runs,omitempty" about:"How many runs ended in which way."`
	Sessions map[string]int   `json:"sessions,omitempty" about:"How many sessions are in which state."`
	Jobs     int              `json:"background_runs" about:"Background runs that are not done."`
	P50      float64          `json:"p50_ms" about:"Half of the last runs took no more milliseconds than this."`
	P90      float64          `json:"p90_ms" about:"Nine of ten of the last runs took no more milliseconds than this."`
	P99      float64          `json:"p99_ms" about:"99 of 100 of the last runs took no more milliseconds than this."`
	Pools    []poolFacts      `json:"pools,omitempty" about:"Sandboxes that are kept ready, each for one run to come."`
}

func (s *Server) sandboxStats(_ context.Context, c *call, _ *statsArgs) (*answer.Answer, error) {
	n := status.Now(s.cfg.Pipeline)
	if c.oneNamespace {
		n = status.NowOf(s.cfg.Pipeline, func(namespace string) bool { return namespace == c.namespace })
	}
	f := &statsFacts{Uptime: time.Since(n.Began).Seconds(), Running: n.Running, Waiting: n.Waiting, Slots: n.Slots,
		Runs: n.Runs, Sessions: n.Sessions, Jobs: n.Jobs, P50: n.P50, P90: n.P90, P99: n.P99, Pools: poolsOf(n.Pools)}
	text := fmt.Sprintf("up for %s; %d of %d slots taken, %d waiting; %s in the background\nruns: %s\nsessions: %s\ntimes: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms%s",
		time.Since(n.Began).Round(time.Second), n.Running, n.Slots, n.Waiting, answer.Count(n.Jobs, "run"), countText(n.Runs), countText(n.Sessions), n.P50, n.P90, n.P99, poolLines(n.Pools))
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
	Backend  string           `json:"backend" about:"What contains the runs."`
	Language string           `json:"language" about:"Their language."`
	Ready    int              `json:"ready" about:"Sandboxes that wait."`
	Memory   int64            `json:"memory_bytes,omitempty" about:"Bytes of RAM that these hold, where it is known."`
	Hits     int64            `json:"hits" about:"Runs that found one."`
	Misses   int64            `json:"misses" about:"Runs that did not, and took longer to start."`
	HitRate  float64          `json:"hit_rate" about:"Hits as a part of all, from 0 to 1."`
	Cold     map[string]int64 `json:"cold,omitempty" about:"How many missed for which reason: the most frequent ones."`
}

func poolsOf(all []status.Pool) (list []poolFacts) {
	for _, p := range all {
		list = append(list, poolFacts{p.Backend, p.Language, p.Ready, p.Memory, p.Hits, p.Misses, math.Round(p.HitRate()*1000) / 1000, topReasons(p.Cold)})
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
		fmt.Fprintf(&b, "\npool of %s (%s): %d ready%s; %d of %d runs found one (%.0f %%)",
			p.Language, p.Backend, p.Ready, memory, p.Hits, p.Hits+p.Misses, 100*p.HitRate())
		if len(p.Cold) > 0 {
			fmt.Fprintf(&b, "; others did not: %s", countText(topReasons(p.Cold)))
		}
	}
	return b.String()
}
