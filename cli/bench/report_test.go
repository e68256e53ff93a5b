package bench

import (
	"slices"
	"strings"
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
		{"one", ms(7), Spread{1, 7, 7, 7, 7}},
		{"two", ms(9, 3), Spread{2, 3, 3, 9, 9}},
		{"three", ms(5, 1, 3), Spread{3, 1, 3, 5, 5}},
		{"ten", ms(10, 9, 8, 7, 6, 5, 4, 3, 2, 1), Spread{10, 1, 5, 9, 10}},
		{"a hundred", ms(hundred...), Spread{100, 1, 50, 90, 99}},
		{"to a microsecond", ms(1.2345678), Spread{1, 1.235, 1.235, 1.235, 1.235}},
	}
	for _, tt := range tests {
		before := slices.Clone(tt.taken)
		if got := newSpread(tt.taken); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		if !slices.Equal(tt.taken, before) {
			t.Errorf("%s: the runs were put in another order", tt.name)
		}
	}
}

func TestCompare(t *testing.T) {
	r := Report{
		Latency: []Figures{
			{Language: "python", Variant: Served, Spread: Spread{Runs: 2, P50: 12}}, // measured before bare
			{Language: "python", Variant: Bare, Spread: Spread{Runs: 2, P50: 8}},
			{Language: "python", Variant: Warm, Spread: Spread{Runs: 2, P50: 2}},
			{Language: "python", Variant: "docker run", Error: "broken"},
			{Language: "node", Variant: Warm, Spread: Spread{Runs: 2, P50: 2}}, // without a bare run
			{Language: "python", Variant: "podman run", Spread: Spread{Runs: 2, P50: 80}},
			{Language: "python", Variant: "sandboxmcp run, podman", Spread: Spread{Runs: 2, P50: 96}},
			{Language: "python", Variant: "sandboxmcp run, docker", Spread: Spread{Runs: 2, P50: 96}},
		},
		Load: []Figures{
			{Language: "shell", Variant: Bare, Concurrency: 2, Spread: Spread{Runs: 9, P50: 2, P99: 5}, PerSecond: 400},
			{Language: "shell", Variant: Warm, Concurrency: 2, Spread: Spread{Runs: 9, P50: 3, P99: 9}, PerSecond: 500},
		},
		LeftOut: map[string]string{"docker": "it does not answer"},
	}
	r.computeRatios()
	for i, want := range []struct{ ratio, alone float64 }{{1.5, 0}, {1, 0}, {0.25, 0}, {}, {}, {10, 0}, {12, 1.2}, {12, 0}} {
		if got := r.Latency[i]; got.Ratio != want.ratio || got.Alone != want.alone {
			t.Errorf("%s %s: ratio %v, to the engine's %v; want %+v", got.Language, got.Variant, got.Ratio, got.Alone, want)
		}
	}
	for i, want := range []float64{1, 1.25} {
		if got := r.Load[i]; got.Ratio != want {
			t.Errorf("%s: ratio %v; want %v", got.Variant, got.Ratio, want)
		}
	}
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  execute_code                       2     0.00     2.00     0.00     0.00     0.25\n",
		"    1.20 x the engine's own run\n", "    it broke: broken\n",
		"    500 a second\n", "\nleft out\n  docker: it does not answer\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("nothing of %q in:\n%s", want, b.String())
		}
	}
}
