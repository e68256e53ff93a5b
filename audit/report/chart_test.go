package report

import (
	"math"
	"strconv"
	"testing"
	"time"
)

// TestTimeline checks that each run is in some bar, whatever the span.
func TestTimeline(t *testing.T) {
	for _, tt := range []struct {
		span time.Duration
		want string
	}{
		{0, "Runs by hour (UTC)"}, {3 * 24 * time.Hour, "Runs by hour (UTC)"}, {30 * 24 * time.Hour, "Runs by day (UTC)"},
		{365 * 24 * time.Hour, "Runs by week (UTC)"}, {5 * 365 * 24 * time.Hour, "Runs by month (UTC)"},
		{50 * 365 * 24 * time.Hour, "Runs by year (UTC)"},
	} {
		var s runs
		for i := range 100 {
			s.countOutcome(day.Add(tt.span/99*time.Duration(i)), i%outcomes)
		}
		c := drawTimeline(s.hours)
		if c.Title != tt.want {
			t.Errorf("%v: got %q, want %q", tt.span, c.Title, tt.want)
		}
		if len(c.Bars) == 0 || len(c.Bars) > 120 || len(c.Labels) > 9 {
			t.Errorf("%v: %d bars, %d labels", tt.span, len(c.Bars), len(c.Labels))
		}
		inFrame(t, c)
	}
}

// inFrame checks that a chart is inside its frame, and that its bars have the height of their runs.
func inFrame(t *testing.T, c chart) {
	t.Helper()
	for _, b := range c.Bars {
		for _, p := range b.Parts {
			x, y, w, h := number(t, p.X), number(t, p.Y), number(t, p.Width), number(t, p.Height)
			if x < chartLeft || x+w > chartWidth+0.1 || y < 0 || y+h > chartHeight-chartBottom+0.2 || w <= 0 || h <= 0 {
				t.Errorf("%s: a bar of %v x %v at %v, %v", c.Title, w, h, x, y)
			}
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		t.Fatalf("%q is not a number", text)
	}
	return f
}

// TestStrangeClock has rows whose times are as far apart as the log can represent.
func TestStrangeClock(t *testing.T) {
	var s runs
	for _, ns := range []int64{math.MinInt64, 0, math.MaxInt64} {
		s.countOutcome(time.Unix(0, ns), outcomeOK)
	}
	c := drawTimeline(s.hours)
	if len(c.Bars) == 0 {
		t.Error("nothing is drawn")
	}
	inFrame(t, c)
}

func TestCeiling(t *testing.T) {
	for n, want := range map[int64]int64{1: 1, 2: 2, 3: 4, 9: 10, 10: 10, 11: 20, 55: 60, 99: 100, 1234: 2000} {
		if got := roundUp(n); got != want {
			t.Errorf("%d: got %d, want %d", n, got, want)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := groupDigits(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
