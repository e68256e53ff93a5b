package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slack is how much more of something there may be than before. What is not in it may not grow at all: the
// kernel frees these when the last process or descriptor is gone, so that one too many is a leak.
var slack = footprint{
	"resident": 48 << 20, // bytes: the garbage collector and the allocator below SQLite keep what was once needed
	"heap":     4 << 20,  // bytes, after a collection; SQLite's cache and the figures of the last runs are bounded
	"threads":  24,       // Go's threads stay, and how many were needed at once is chance
	// As many nests stay as once worked at the same time, one for each CPU and root at most; and connections to the log.
	"processes": nests, "namespaces mnt": nests, "namespaces pid": nests, "namespaces user": nests, "mounts": 24 * nests, "descriptors": 40 + 4*nests,
}

const nests = 8

// TestNothingGrows has one server run programs, 16 at a time, that end in all ways, with what is kept ready
// and drained meanwhile. When it has been idle for a moment, it must have no more processes, descriptors,
// namespaces, mounts, cgroups and files than it had at the beginning, and no more memory but for slack.
// SANDBOXMCP_TEST_SOAK says how many runs; 400 without it.
func TestNothingGrows(t *testing.T) {
	wanted := soakRuns(t)
	inherit(t)
	s := startMeasured(t)
	work(t, s, 0, 200) // all that is made once, and kept
	s.warm(t)
	before := s.settled(t, nil)
	t.Logf("before: %v", before)
	const parts = 10
	for part := range parts {
		from, to := 200+wanted*part/parts, 200+wanted*(part+1)/parts
		work(t, s, from, to)
		if wanted >= 1000 {
			t.Logf("after %d runs: %v", to, s.footprint(t))
		}
	}
	after := s.settled(t, before)
	t.Logf("after:  %v", after)
	t.Logf("pools: %v", s.pools(t))
	for _, what := range slices.Sorted(maps.Keys(after)) {
		if after[what] > before[what]+slack[what] {
			t.Errorf("%s: %d, and before %d runs %d", what, after[what], wanted, before[what])
		}
	}
	if t.Failed() {
		t.Logf("processes:\n%s", strings.Join(commands(descendants()), "\n"))
		t.Logf("descriptors of the server:\n%s", strings.Join(s.descriptors(), "\n"))
	}
}

// warm sees to it that there are programs that find a sandbox ready: else the test would be about less than
// it says. Where nothing is kept ready, there are none.
func (s *measured) warm(t *testing.T) {
	t.Helper()
	if len(s.pools(t)) == 0 {
		t.Log("this backend keeps nothing ready")
		return
	}
	for _, language := range []string{"python", "node", "shell"} {
		code := map[string]string{"python": "pass", "node": "0", "shell": "true"}[language]
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			got, err := s.call("execute_code", map[string]any{"language": language, "code": code})
			if err != nil {
				t.Fatal(err)
			}
			if got.Warm {
				break
			}
			if time.Now().After(end) {
				t.Errorf("no program of %s is warm: %s", language, got.Cold)
				break
			}
		}
	}
}

// settled waits until nothing is being made or removed any more, and with a footprint to compare with, until
// there is no more than that: whoever removes things in the background may take its time, but not forever.
func (s *measured) settled(t *testing.T, before footprint) footprint {
	t.Helper()
	const patience, quiet = time.Minute, 3 * time.Second
	var last footprint
	since, end := time.Now(), time.Now().Add(patience)
	for {
		now := s.footprint(t)
		if !maps.Equal(now.counts(), last.counts()) {
			since = time.Now()
		}
		last = now
		if time.Since(since) > quiet && (before == nil || now.within(before)) || time.Now().After(end) {
			return now
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// work does the jobs from one number up to another, 16 at a time.
func work(t *testing.T, s *measured, from, to int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(from))
	for range 16 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < to && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := jobOf(i).do(s, i); err != nil {
					t.Errorf("run %d: %v", i, err)
					cancel()
				}
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.Fatalf("the server said:\n%s", s.said())
	}
}
