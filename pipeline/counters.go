package pipeline

import (
	"sync"
	"time"
)

// counters counts the runs of each namespace by their end, and keeps the durations of the last ones.
type counters struct {
	Began time.Time

	Mu   sync.Mutex
	Runs map[string]map[string]int64
	Last []runDuration
}

// runDuration is the time of a run from request to result.
type runDuration struct {
	Namespace string
	Micros    int64
}

// maxCounted bounds the namespaces that are counted separately, because clients choose their names. Runs of further
// namespaces count for "" alone.
const maxCounted = 1000

// lastRuns is the number of runs from which the percentiles are computed.
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
