package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// auditFilter is what the flags of choosing choose. It warns of rows that are not here.
func (p *program) auditFilter(c *cli.Context, now time.Time) (audit.Filter, error) {
	f := audit.Filter{Namespace: c.String("namespace"), Kinds: c.StringSlice("kind"), Sealed: !c.Bool("live"), Missing: p.warnMissing}
	if err := event.CheckRows(f.Kinds); err != nil {
		return f, exit.Usage("--kind execution.refused", "--kind: %v", err)
	}
	for _, bound := range []struct {
		flag string
		to   *time.Time
	}{{"since", &f.Since}, {"until", &f.Until}} {
		text := c.String(bound.flag)
		if text == "" {
			continue
		}
		t, err := timeFlag(bound.flag, text, now)
		if err != nil {
			return f, err
		}
		*bound.to = t
	}
	if !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return f, exit.Usage("--since 2026-01-01 --until 2026-02-01", "--since is not before --until, and no row can be between them")
	}
	return f, nil
}

func (p *program) warnMissing(s audit.Segment) { p.Say("warning: %s", s.Missing()) }

// timeFlag reads the value of a flag that is a point in time.
func timeFlag(flag, text string, now time.Time) (time.Time, error) {
	t, ok := pointInTime(text, now)
	if !ok {
		return t, exit.Usage("--"+flag+" 2h, 3d, 2026-01-31 or 2026-01-31T15:04:05Z", "--%s %q is no time", flag, text)
	}
	return t, nil
}

// pointInTime reads a point in time: a date, a date and time, or how long ago it was.
func pointInTime(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	for suffix, day := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		number, ok := strings.CutSuffix(text, suffix)
		if n, err := strconv.ParseFloat(number, 64); ok && err == nil && n >= 0 && n < 36500 {
			return now.Add(-time.Duration(n * float64(day))), true
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	return time.Time{}, false
}

// scope says in words what f chooses, a part each.
func scope(f audit.Filter) []string {
	var words []string
	if f.Namespace != "" {
		words = append(words, "rows of the namespace "+f.Namespace)
	}
	if len(f.Kinds) > 0 {
		words = append(words, "rows of the kind "+strings.Join(f.Kinds, " or "))
	}
	if !f.Since.IsZero() {
		words = append(words, "rows from "+f.Since.UTC().Format(time.RFC3339)+" on")
	}
	if !f.Until.IsZero() {
		words = append(words, "rows before "+f.Until.UTC().Format(time.RFC3339))
	}
	if !f.Sealed {
		words = append(words, "rows in the database, and none of the sealed files")
	}
	return words
}
