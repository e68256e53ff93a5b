package bench

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// nasty is what a tool may say.
const nasty = `<script>alert("1")</script> & ]]> ` + "\x00\x1b[31m" + ` 'quoted' ` + "\xff\xfe"

func example() Report {
	r := Report{
		Began:   time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Machine: Machine{CPU: "Fast & Furious <9000>", Cores: 4, Kernel: "Linux 6.18", User: "root", Versions: map[string]string{"python": "3.12 at /" + strings.Repeat("long/", 40) + "python3"}},
		Latency: []Latency{
			{Language: "python", Variant: Bare, What: "python3 main.py: print(1)", Spread: Spread{100_000, 6.1, 6.5, 7.4, 9.9, 12345.678, 23456.789}},
			{Language: "python", Variant: "docker run, runsc", Spread: Spread{20, 10234.5, 12345.6, 23456.7, 34567.8, 45678.9, 56789.1}},
			{Language: "python", Variant: Warm, Spread: Spread{100, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6}, Ready: &Ready{Runs: 123458, Found: 123456, Cold: map[string]int{"none stood ready": 2}}},
			{Language: "python", Variant: "podman exec", Error: nasty},
			{Language: "shell", Variant: Cold, Spread: Spread{Runs: 1}, Error: nasty},
		},
		Load: []Load{
			{Language: "python", Variant: Bare, Concurrency: 128, Spread: Spread{123456, 1, 1, 10.5, 20, 30, 31}, PerSecond: 41152},
			{Language: "python", Variant: Warm, Concurrency: 128, Spread: Spread{10, 1, 1, 10.5, 20, 30, 31}, PerSecond: 20576, Error: nasty},
		},
		LeftOut: []LeftOut{{What: "docker", Why: strings.Repeat("it does not answer ", 12) + nasty}},
	}
	r.compare(used{idle: 38.9, loaded: 12345.6, slot: map[string]float64{"python": 4.1}, server: 8.5, bash: 2})
	return r
}

func TestTableFits(t *testing.T) {
	var b strings.Builder
	if err := example().Table(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, want := range []string{"docker run, runsc", "podman exec broke: <script>", "docker: it does not answer", "123456 of 123458 found a sandbox ready; 2: none stood ready", "<= 40.0", ">= 1.00", "x bare"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("nothing of %q in:\n%s", want, b.String())
		}
	}
}
