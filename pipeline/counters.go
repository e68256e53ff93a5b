package pipeline

import (
	"sync"
	"time"
)

// counters counts runs of each namespace by how they ended, and holds the times of the last.
type counters struct {
	Began time.Time

	Mu   sync.Mutex
	Runs map[string]map[string]int64
	Last []runDuration
}

// runDuration is how long a run took, from request to result.
type runDuration struct {
	Namespace string
	Micros    int64
}

// maxCounted is how many namespaces are counted by themselves: clients choose their names. The runs of further ones
// count for "" alone.
const maxCounted = 1000

// lastRuns is of how many runs the percentiles are.
const lastRuns = 1000

func (t *counters) countOutcome(r Outcome) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	of := r.Namespace
	if t.Runs[of] == nil && len(t.Runs) >= maxCounted {
		of = ""
	}
	if t.Runs[of] == nil {
		t.Runs[of] = map[string]int64{}
	}
	t.Runs[of][r.Ended]++
	if r.Timings.Total == 0 {
		return
	}
	t.Last = append(t.Last, runDuration{of, r.Timings.Total})
	t.Last = t.Last[max(0, len(t.Last)-lastRuns):]
}
