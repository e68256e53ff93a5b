package audit

import (
	"testing"
	"time"
)

func TestPointInTime(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("here", 3600))
	for text, want := range map[string]time.Time{
		"2h":                   now.Add(-2 * time.Hour),
		"3d":                   now.Add(-72 * time.Hour),
		"1.5d":                 now.Add(-36 * time.Hour),
		"1w":                   now.Add(-7 * 24 * time.Hour),
		"90m":                  now.Add(-90 * time.Minute),
		"2026-03-01":           time.Date(2026, 3, 1, 0, 0, 0, 0, now.Location()),
		"2026-03-01 08:30":     time.Date(2026, 3, 1, 8, 30, 0, 0, now.Location()),
		"2026-03-01T08:30:00Z": time.Date(2026, 3, 1, 8, 30, 0, 0, time.UTC),
	} {
		if got, ok := PointInTime(text, now); !ok || !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"yesterday", "-2h", "-1d", "2026-13-01", "1e300d", "NaNd", "d", " "} {
		if got, ok := PointInTime(text, now); ok {
			t.Errorf("%q: got %v, want nothing", text, got)
		}
	}
}
