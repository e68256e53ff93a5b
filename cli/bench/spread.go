package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Spread is how long runs took, in milliseconds to a microsecond. Each figure is one run's that was really
// measured: pN is the shortest time that N of 100 runs did not exceed.
type Spread struct {
	Runs int     `json:"runs"`
	Min  float64 `json:"min_ms"`
	P10  float64 `json:"p10_ms"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
}

func spread(taken []sample) Spread {
	if len(taken) == 0 {
		return Spread{}
	}
	sorted := slices.SortedFunc(slices.Values(taken), func(a, b sample) int { return cmp.Compare(a.took, b.took) })
	at := func(percent int) float64 {
		rank := (len(sorted)*percent + 99) / 100 // rounded up: the nearest rank
		return round(float64(sorted[max(rank, 1)-1].took) / float64(time.Millisecond))
	}
	return Spread{Runs: len(sorted), Min: at(0), P10: at(10), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// round keeps three decimals.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

// ratio is 0 where there is nothing to compare.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return round(a / b)
}
