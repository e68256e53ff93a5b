package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSpread(t *testing.T) {
	ms := func(all ...float64) (taken []sample) {
		for _, one := range all {
			taken = append(taken, sample{took: time.Duration(one * float64(time.Millisecond))})
		}
		return taken
	}
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i)) // in any order
	}
	tests := []struct {
		name  string
		taken []sample
		want  Spread
	}{
		{"none", nil, Spread{}},
		{"one", ms(7), Spread{1, 7, 7, 7, 7, 7, 7}},
		{"two", ms(9, 3), Spread{2, 3, 3, 3, 9, 9, 9}},
		{"three", ms(5, 1, 3), Spread{3, 1, 1, 3, 5, 5, 5}},
		{"ten", ms(10, 9, 8, 7, 6, 5, 4, 3, 2, 1), Spread{10, 1, 1, 5, 9, 10, 10}},
		{"a hundred", ms(hundred...), Spread{100, 1, 10, 50, 90, 99, 100}},
		{"the same", ms(4, 4, 4, 4), Spread{4, 4, 4, 4, 4, 4, 4}},
		{"to a microsecond", ms(1.2345678), Spread{1, 1.235, 1.235, 1.235, 1.235, 1.235, 1.235}},
	}
	for _, tt := range tests {
		before := slices.Clone(tt.taken)
		if got := spread(tt.taken); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if !slices.Equal(tt.taken, before) {
			t.Errorf("%s: the runs were put in another order", tt.name)
		}
	}
}

func TestCompare(t *testing.T) {
	r := Report{
		Latency: []Latency{
			{Language: "python", Variant: Cold, Spread: Spread{Runs: 2, P50: 12}}, // measured before bare
			{Language: "python", Variant: Bare, Spread: Spread{Runs: 2, P50: 8}},
			{Language: "python", Variant: Warm, Spread: Spread{Runs: 2, P50: 2}},
			{Language: "python", Variant: "docker run", Error: "broken"},
			{Language: "node", Variant: Warm, Spread: Spread{Runs: 2, P50: 2}}, // with nothing to compare
			{Language: "python", Variant: "podman run", Spread: Spread{Runs: 2, P50: 80}},
			{Language: "python", Variant: "sandboxmcp run, podman", Spread: Spread{Runs: 2, P50: 96}},
			{Language: "python", Variant: "sandboxmcp run, docker", Spread: Spread{Runs: 2, P50: 96}},
		},
		Load: []Load{
			{Language: "shell", Variant: Bare, Spread: Spread{P50: 2, P99: 5}, PerSecond: 400},
			{Language: "shell", Variant: Warm, Spread: Spread{P50: 3, P99: 9}, PerSecond: 500},
		},
	}
	r.compare(used{})
	for i, want := range []struct{ added, ratio, alone float64 }{{4, 1.5, 0}, {0, 1, 0}, {-6, 0.25, 0}, {}, {}, {72, 10, 0}, {88, 12, 1.2}, {88, 12, 0}} {
		if got := r.Latency[i]; got.Added != want.added || got.Ratio != want.ratio || got.Alone != want.alone {
			t.Errorf("%s %s: added %v, ratio %v, to the engine's %v; want %+v", got.Language, got.Variant, got.Added, got.Ratio, got.Alone, want)
		}
	}
	for i, want := range []struct{ tail, ratio float64 }{{2.5, 1}, {3, 1.25}} {
		if got := r.Load[i]; got.Tail != want.tail || got.Ratio != want.ratio {
			t.Errorf("%s: tail %v, ratio %v; want %v, %v", got.Variant, got.Tail, got.Ratio, want.tail, want.ratio)
		}
	}
}

// TestRows: each row is the figure that its words say, and has its target.
func TestRows(t *testing.T) {
	at := func(language, variant string, p50 float64) Latency {
		return Latency{Language: language, Variant: variant, Spread: Spread{Runs: 1, P50: p50}}
	}
	r := Report{
		Latency: []Latency{
			at("shell", Bare, 2), at("shell", Bubblewrap, 6), at("shell", Warm, 1), at("shell", Session, 0.5), at("shell", Cold, 4),
			at("shell", FromBash, 12), at("shell", Served, 1), at("python", Bare, 10), at("python", Bubblewrap, 9), at("python", Cold, 30),
			at("python", Warm, 3), at(Start, Bare, 3), at(Start, Version, 9),
		},
		Load: []Load{
			{Language: "shell", Variant: Bare, Concurrency: 2, PerSecond: 400},
			{Language: "shell", Variant: Bubblewrap, Concurrency: 2, PerSecond: 100, Spread: Spread{P50: 2, P99: 5}},
			{Language: "shell", Variant: Warm, Concurrency: 2, PerSecond: 300, Spread: Spread{P50: 2, P99: 4}},
		},
	}
	r.compare(used{idle: 41, loaded: 70, slot: map[string]float64{"shell": 0.9}, server: 3, bash: 2})
	want := []Row{
		{"execute_code, python: time x bare", 0.3, 0.25, false, 0.9},
		{"execute_code, shell: time x bare", 0.5, 1, false, 3},
		{"2 at a time, shell: runs a second x bare", 0.75, 0.6, true, 0.25},
		{"2 at a time, shell: runs a second x bubblewrap", 3, 2.5, true, 0},
		{"2 at a time, shell: p99 / p50", 2, 3, false, 2.5},
		{"cell of a session, shell: time x bare bash", 0.25, 0.2, false, 0},
		{"cold sandbox, shell: added time x bubblewrap's", 0.5, 0.6, false, 0}, // bubblewrap's Python took less than the bare one: noise
		{"sandboxmcp version: time x the least Go program", 3, 2, false, 0},
		{"run, shell: added time x bubblewrap's", 2.5, 2, false, 0},
		{"run, served, shell: added time x bubblewrap's", -0.25, 1, false, 0},
		{"server's CPU time for a shell run x bare bash's", 1.5, 0.5, false, 0},
		{"server, idle: RSS in MB", 41, 40, false, 0},
		{"server, after the load: RSS in MB", 70, 0, false, 0},
		{"idle sandbox, shell: PSS in MB", 0.9, 1, false, 0},
	}
	if diff := cmp.Diff(want, r.Rows); diff != "" {
		t.Error(diff)
	}
}
