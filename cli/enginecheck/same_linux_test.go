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

// kinds are the backends, the one that the others are compared with first.
var kinds = []string{"process", "docker", "podman"}

// leftOut are the fields that can't be the same, or are compared in another way.
var leftOut = cmp.Options{
	cmpopts.IgnoreFields(pipeline.Outcome{},
		"ID", "Session", // of this run only
		"Timings", "WallMS", "CPUMS", // are measured
		"Backend",    // is what differs
		"PeakMemory", // is measured: see memory
		"Layers",     // have details of how each was made: see layers
	),
	cmpopts.IgnoreUnexported(pipeline.Outcome{}, pipeline.Error{}), // what their texts are made of
}

// same compares a backend's result with that of the process backend.
func same(t *testing.T, want, got pipeline.Outcome) {
	t.Helper()
	if d := cmp.Diff(want, got, leftOut); d != "" {
		t.Errorf("%s differs (-%[2]s +%[1]s):\n%[3]s", got.Backend, want.Backend, d)
	}
	if d := cmp.Diff(layers(want), layers(got)); d != "" {
		t.Errorf("layers of %s (-%[2]s +%[1]s):\n%[3]s", got.Backend, want.Backend, d)
	}
	memory(t, want, got)
}

// layers are the names of those that hold, without the two that containers may lack: a time namespace
// no engine makes, and a user namespace only where users are mapped.
func layers(r pipeline.Outcome) []string {
	return slices.DeleteFunc(r.LayersInForce(), func(name string) bool {
		return name == backends.LayerUser || name == backends.LayerTime
	})
}

// memory compares what is measured by cgroups that start with other processes in them: it has to be of
// one size.
func memory(t *testing.T, want, got pipeline.Outcome) {
	t.Helper()
	const slack = 48 << 20
	if low, high := want.PeakMemory/3-slack, 3*want.PeakMemory+slack; got.PeakMemory < low || got.PeakMemory > high {
		t.Errorf("peak memory of %s is %d MB, of %s %d MB", got.Backend, got.PeakMemory>>20, want.Backend, want.PeakMemory>>20)
	}
	if (want.PeakMemory > 0) != (got.PeakMemory > 0) {
		t.Errorf("peak memory of %s is %d, of %s %d", got.Backend, got.PeakMemory, want.Backend, want.PeakMemory)
	}
}

// together runs f with all kinds of backends at the same time, and returns what it returned by kind.
// Kinds that this machine does not have are left out.
func together[T any](benches []*bench, f func(*bench) T) []T {
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

// newBenches is a bench for each backend that is here, of which there must be two.
func newBenches(t *testing.T) []*bench {
	t.Helper()
	town := newSites(t)
	var all []*bench
	for _, kind := range kinds {
		if kind == "process" || has(t, kind) {
			all = append(all, newBench(t, kind, town))
		}
	}
	if len(all) < 2 {
		t.Skip("there is no container engine to compare with")
	}
	return all
}

// has says whether this machine has an engine, which runs then. One that is required and missing fails
// the test.
func has(t testing.TB, kind string) bool {
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

// skipped is a test that goes on when a part of it is skipped.
type skipped struct{ testing.TB }

func (s skipped) Skipf(format string, args ...any) {
	s.Logf(format, args...)
	runtime.Goexit()
}
