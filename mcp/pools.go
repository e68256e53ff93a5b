package mcp

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

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

func poolsOf(all []pipeline.Pool) (list []poolFacts) {
	for _, p := range all {
		list = append(list, poolFacts{p.Backend, p.Language, p.Ready, p.Memory, p.Hits, p.Misses, math.Round(p.HitRate()*1000) / 1000, frequent(p.Cold)})
	}
	return list
}

// maxReasons bounds what is told of why runs started cold. Callers name some of the variables in these.
const maxReasons = 5

// frequent are the most frequent reasons, on a line each.
func frequent(cold map[string]int64) map[string]int64 {
	names := slices.SortedFunc(maps.Keys(cold), func(a, b string) int { return cmp.Or(cmp.Compare(cold[b], cold[a]), cmp.Compare(a, b)) })
	few := map[string]int64{}
	for _, name := range names[:min(len(names), maxReasons)] {
		few[clip(oneLine(name), 200)] += cold[name]
	}
	return few
}

// poolLines are a line for each pool, with a line end before it.
func poolLines(all []pipeline.Pool) string {
	var b strings.Builder
	for _, p := range all {
		memory := ""
		if p.Memory > 0 { // or it is not known
			memory = " in " + size(p.Memory)
		}
		fmt.Fprintf(&b, "\npool of %s (%s): %d ready%s; %d of %d runs found one (%.0f %%)",
			p.Language, p.Backend, p.Ready, memory, p.Hits, p.Hits+p.Misses, 100*p.HitRate())
		if len(p.Cold) > 0 {
			fmt.Fprintf(&b, "; others did not: %s", tallied(frequent(p.Cold)))
		}
	}
	return b.String()
}
