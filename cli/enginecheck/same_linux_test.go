package enginecheck_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// backendKinds are the backends; the others are compared with the first.
var backendKinds = []string{"process", "docker", "podman"}

// leftOut are the fields that differ between runs, or that are compared separately.
var leftOut = cmp.Options{
	cmpopts.IgnoreFields(pipeline.Outcome{},
		"ID", "Session", // unique to the run
		"Timings", "WallMS", "CPUMS", // measured
		"Backend",    // expected to differ
		"PeakMemory", // measured: see comparePeakMemory
		"Layers",     // details depend on the backend: see layerNames
	),
	cmpopts.IgnoreUnexported(pipeline.Outcome{}, pipeline.Error{}), // the parts of their texts
}

// compareOutcomes compares a backend's outcome with that of the process backend.
func compareOutcomes(t *testing.T, want, got pipeline.Outcome) {
	t.Helper()
	if d := cmp.Diff(want, got, leftOut); d != "" {
		t.Errorf("%s differs (-%[2]s +%[1]s):\n%[3]s", got.Backend, want.Backend, d)
	}
	if d := cmp.Diff(layerNames(want), layerNames(got)); d != "" {
		t.Errorf("layers of %s (-%[2]s +%[1]s):\n%[3]s", got.Backend, want.Backend, d)
	}
	comparePeakMemory(t, want, got)
}

// layerNames returns the names of the active layers, except for two that containers may lack: a time namespace, which no
// engine creates, and a user namespace, which depends on user mapping.
func layerNames(r pipeline.Outcome) []string {
	return slices.DeleteFunc(r.LayersInForce(), func(name string) bool {
		return name == backends.LayerUser || name == backends.LayerTime
	})
}

// comparePeakMemory compares peak memory roughly: cgroups contain different helper processes at the start.
func comparePeakMemory(t *testing.T, want, got pipeline.Outcome) {
	t.Helper()
	const slack = 48 << 20
	if low, high := want.PeakMemory/3-slack, 3*want.PeakMemory+slack; got.PeakMemory < low || got.PeakMemory > high {
		t.Errorf("peak memory of %s is %d MB, of %s %d MB", got.Backend, got.PeakMemory>>20, want.Backend, want.PeakMemory>>20)
	}
	if (want.PeakMemory > 0) != (got.PeakMemory > 0) {
		t.Errorf("peak memory of %s is %d, of %s %d", got.Backend, got.PeakMemory, want.Backend, want.PeakMemory)
	}
}

// runTogether runs f with all benches in parallel and returns the results in their order.
func runTogether[T any](benches []*bench, f func(*bench) T) []T {
	type one struct {
		i int
		v T
	}
	all := make(chan one)
	for i, b := range benches {
		go func() { all <- one{i, f(b)} }()
	}
	results := make([]T, len(benches))
	for range benches {
		o := <-all
		results[o.i] = o.v
	}
	return results
}

// newBenches returns a bench for each backend on this machine, of which there must be two.
func newBenches(t *testing.T) []*bench {
	t.Helper()
	town := newSites(t)
	var all []*bench
	for _, kind := range backendKinds {
		if kind == "process" || hasEngine(t, kind) {
			all = append(all, newBench(t, kind, town))
		}
	}
	if len(all) < 2 {
		t.Skip("there is no container engine to compare with")
	}
	return all
}

// hasEngine reports whether this machine has an engine, and starts it. A missing engine that is required fails the test.
func hasEngine(t testing.TB, kind string) bool {
	t.Helper()
	there := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		engineURLs()[kind](skipped{t})
		there = true
	}()
	<-done
	if t.Failed() {
		t.FailNow()
	}
	return there
}

// skipped is a test that continues when a part of it is skipped.
type skipped struct{ testing.TB }

func (s skipped) Skipf(format string, args ...any) {
	s.Logf(format, args...)
	runtime.Goexit()
}
