package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// slack is the allowed growth of a resource. Resources without an entry must not grow at all: the kernel frees them
// with the last process or descriptor, so that one more is a leak.
var slack = footprint{
	"resident": 48 << 20, // bytes: the garbage collector and SQLite's allocator retain memory
	"heap":     4 << 20,  // bytes, after a collection; SQLite's cache and the figures of the last runs are bounded
	"threads":  24,       // Go's threads stay, and their number depends on chance
	// As many templates stay as worked at the same time, at most one for each CPU and root; and connections to the log.
	"processes": templates, "namespaces mnt": templates, "namespaces pid": templates, "namespaces user": templates, "mounts": 24 * templates,
	"descriptors":      40 + 4*templates,
	"programs of BPF":  64,     // includes those of other tests
	"files of cgroups": 8 * 48, // an idle cgroup keeps the files open that were once read: eight
}

const templates = 8

// TestNothingGrows has one server run programs, 16 at a time, with all outcomes, while its pools fill and drain. Once
// idle again, it must have no more processes, descriptors, namespaces, mounts, cgroups and files than at the beginning,
// and no more memory than slack allows.
func TestNothingGrows(t *testing.T) {
	runs := hosttest.Rounds(2*everyJob, 100_000)
	becomeSubreaper(t)
	s := startMeasured(t)
	runJobs(t, s, 0, everyJob) // creates everything that is created once
	s.checkWarmRuns(t)
	before := s.waitUntilIdle(t)
	t.Logf("before: %v", before)
	for from, some := everyJob, max(1000, runs/10); from < everyJob+runs; from += some {
		runJobs(t, s, from, min(from+some, everyJob+runs))
		t.Logf("then:   %v", s.footprint(t))
	}
	t.Logf("pools: %v", s.pools(t))
	var after footprint
	defer func() {
		t.Logf("after:  %v", after)
		if t.Failed() {
			t.Logf("processes:\n%s", strings.Join(commandLinesOf(descendantPIDs()), "\n"))
			t.Logf("descriptors of the server:\n%s", strings.Join(s.countDescriptors(), "\n"))
		}
	}()
	hosttest.Until(t, "there is no more of anything than before", func() bool {
		after = s.footprint(t)
		return after.isWithin(before)
	})
}

// checkWarmRuns ensures that some programs find a warm sandbox: otherwise the test would cover less than it claims. Without
// pools there are none.
func (s *measured) checkWarmRuns(t *testing.T) {
	t.Helper()
	if len(s.pools(t)) == 0 {
		t.Log("this backend keeps nothing ready")
		return
	}
	for _, language := range []string{"python", "node", "shell"} {
		code := map[string]string{"python": "pass", "node": "0", "shell": "true"}[language]
		hosttest.Until(t, "a program of "+language+" is warm", func() bool {
			got, err := s.call("execute_code", map[string]any{"language": language, "code": code})
			if err != nil {
				t.Fatal(err)
			}
			return got.Warm
		})
	}
}

// waitUntilIdle waits until the pools are empty and almost nothing is being created or removed. Remaining work makes the test
// less strict, and never fail.
func (s *measured) waitUntilIdle(t *testing.T) (last footprint) {
	t.Helper()
	same := 0
	hosttest.Until(t, "the server is idle", func() bool {
		now := s.footprint(t)
		if same++; !maps.Equal(now.counts(), last.counts()) || slices.ContainsFunc(s.pools(t), func(p pooled) bool { return p.Ready > 0 }) {
			same = 0
		}
		last = now
		return same > 20
	})
	return last
}

// runJobs does the jobs of a range of numbers, 16 at a time.
func runJobs(t *testing.T, s *measured, from, to int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(from))
	for range 16 {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < to && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := jobOf(i).runOn(s, i); err != nil {
					t.Errorf("run %d: %v", i, err)
					cancel()
				}
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.Fatalf("the server said:\n%s", s.errors())
	}
}
