package terminal

import "time"

// Ago returns a duration before now in words, in its largest unit: "3 hours ago"; below a minute, "just now".
func Ago(d time.Duration) string {
	if d < time.Minute {
		return "just now"
	}
	return Span(d) + " ago"
}

// Span returns a duration in its largest unit, rounded down: "3 hours"; below a minute, "new".
func Span(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / unit.size); n > 0 {
			return Count(n, unit.name)
		}
	}
	return "new"
}
