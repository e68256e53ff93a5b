package bench

import (
	"slices"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	ms := func(all ...float64) (taken []time.Duration) {
		for _, one := range all {
			taken = append(taken, time.Duration(one*float64(time.Millisecond)))
		}
		return taken
	}
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i)) // in any order
	}
	tests := []struct {
		name  string
		taken []time.Duration
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

func TestScale(t *testing.T) {
	tests := []struct {
		name             string
		from, to         float64
		wantFrom, wantTo float64
		ticks            []float64
	}{
		{"within a decade", 1.3, 4.2, 1, 5, []float64{1, 2, 5}},
		{"over decades", 0.7, 61, 0.5, 100, []float64{0.5, 1, 2, 5, 10, 20, 50, 100}},
		{"round numbers", 2, 50, 2, 100, []float64{2, 5, 10, 20, 50, 100}},
		{"all the same", 10, 10, 10, 20, []float64{10, 20}},
		{"nothing at all", 0, 0, 0.001, 0.002, []float64{0.001, 0.002}},
	}
	for _, tt := range tests {
		s, ok := scaleOf([]Latency{{Spread: Spread{Runs: 1, P10: tt.from, P99: tt.to}}, {}})
		if !ok || s.from != tt.wantFrom || s.to != tt.wantTo {
			t.Errorf("%s: got %v %v, want %v to %v", tt.name, s, ok, tt.wantFrom, tt.wantTo)
		}
		if got := s.ticks(); !slices.Equal(got, tt.ticks) {
			t.Errorf("%s: ticks: got %v, want %v", tt.name, got, tt.ticks)
		}
		if x := s.x(tt.wantFrom); x != marksFrom {
			t.Errorf("%s: begins at %v, want %v", tt.name, x, marksFrom)
		}
		if x := s.x(tt.wantTo); x < marksTo-0.001 || x > marksTo {
			t.Errorf("%s: ends at %v, want %v", tt.name, x, marksTo)
		}
	}
	if _, ok := scaleOf([]Latency{{Error: "broken"}}); ok {
		t.Error("there is a scale without anything on it")
	}
}

func TestCompare(t *testing.T) {
	r := Report{
		Latency: []Latency{
			{Language: "python", Way: Cold, Spread: Spread{Runs: 2, P50: 12}}, // measured before bare
			{Language: "python", Way: Bare, Spread: Spread{Runs: 2, P50: 8}},
			{Language: "python", Way: Warm, Spread: Spread{Runs: 2, P50: 2}},
			{Language: "python", Way: "docker run", Error: "broken"},
			{Language: "node", Way: Warm, Spread: Spread{Runs: 2, P50: 2}}, // with nothing to compare
			{Language: "python", Way: "podman run", Spread: Spread{Runs: 2, P50: 80}},
			{Language: "python", Way: "sandboxmcp run, podman", Spread: Spread{Runs: 2, P50: 96}},
			{Language: "python", Way: "sandboxmcp run, docker", Spread: Spread{Runs: 2, P50: 96}},
		},
		Load: []Load{
			{Language: "shell", Way: Bare, Spread: Spread{P50: 2, P99: 5}, PerSecond: 400},
			{Language: "shell", Way: Warm, Spread: Spread{P50: 3, P99: 9}, PerSecond: 500},
		},
	}
	r.compare()
	for i, want := range []struct{ added, ratio, alone float64 }{{4, 1.5, 0}, {0, 1, 0}, {-6, 0.25, 0}, {}, {}, {72, 10, 0}, {88, 12, 1.2}, {88, 12, 0}} {
		if got := r.Latency[i]; got.Added != want.added || got.Ratio != want.ratio || got.Alone != want.alone {
			t.Errorf("%s %s: added %v, ratio %v, to the engine's %v; want %+v", got.Language, got.Way, got.Added, got.Ratio, got.Alone, want)
		}
	}
	for i, want := range []struct{ tail, ratio float64 }{{2.5, 1}, {3, 1.25}} {
		if got := r.Load[i]; got.Tail != want.tail || got.Ratio != want.ratio {
			t.Errorf("%s: tail %v, ratio %v; want %v, %v", got.Way, got.Tail, got.Ratio, want.tail, want.ratio)
		}
	}
}
