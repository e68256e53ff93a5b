package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// tableWidth is how many columns the table takes at most.
const tableWidth = 80

// Table writes the report for people. The words of tools in it are as they came: whoever shows it on a terminal takes care
// of escapes.
func (r Report) Table(w io.Writer) error {
	t := &table{}
	t.wrap("", fmt.Sprintf("%s, %s", r.Machine.Line(), r.Began.Local().Format("2006-01-02 15:04")))
	var versions []string
	for name, v := range r.Machine.Versions {
		versions = append(versions, name+" "+v)
	}
	slices.Sort(versions)
	t.wrap("", strings.Join(versions, ", "))
	t.rows(r.Rows)
	for _, language := range append(Languages(), Start) {
		t.latencies(language, Of(r.Latency, language))
	}
	for _, language := range Languages() {
		t.loads(language, Of(r.Load, language))
	}
	for i, l := range r.LeftOut {
		if i == 0 {
			t.line("")
			t.line("left out")
		}
		t.wrap("  ", fmt.Sprintf("%s: %s", l.What, l.Why))
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

type table struct{ b strings.Builder }

func (t *table) line(format string, args ...any) {
	t.b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// wrap writes text in as many lines as it needs, each begun with indent. A word that is longer than a line is broken.
func (t *table) wrap(indent, text string) {
	line := indent
	for _, word := range strings.Fields(text) {
		if len([]rune(line))+len([]rune(word)) > tableWidth && line != indent {
			t.line("%s", line)
			line = indent
		}
		for room := tableWidth - len(indent); len([]rune(word)) > room; {
			r := []rune(word)
			t.line("%s%s", indent, string(r[:room]))
			word = string(r[room:])
		}
		line += word + " "
	}
	t.line("%s", line)
}

func (t *table) rows(rows []Row) {
	for i, row := range rows {
		if i == 0 {
			t.line("")
			t.line("  %-51s%9s%9s%9s", "figures with a target", "measured", "target", "bwrap")
		}
		target, others := "", ""
		switch {
		case row.Target == 0:
		case row.AtLeast:
			target = ">= " + Figure(row.Target)
		default:
			target = "<= " + Figure(row.Target)
		}
		if row.Bubblewrap > 0 {
			others = Figure(row.Bubblewrap)
		}
		t.line("  %-51s%9s%9s%9s", row.What, Figure(row.Measured), target, others)
	}
}

func (t *table) latencies(language string, its []Latency) {
	if len(its) == 0 {
		return
	}
	t.line("")
	t.line("%s: %s", language, Shorten(its[0].What, 60))
	t.line("  %-22s%7s%8s%8s%8s%8s%8s%9s", "one at a time, in ms", "runs", "min", "p10", "p50", "p90", "p99", "x bare")
	for _, l := range its {
		if l.Runs > 0 {
			t.line("  %-22s%7d%8s%8s%8s%8s%8s%9.2f", l.Variant, l.Runs, Figure(l.Min), Figure(l.P10), Figure(l.P50), Figure(l.P90), Figure(l.P99), l.Ratio)
		}
		t.broken(l.Variant, l.Error)
	}
	for _, l := range its {
		if l.Alone > 0 {
			t.line("  %s takes %.2f times as long as the engine's own run", l.Variant, l.Alone)
		}
		t.ready(l.Ready)
	}
}

func (t *table) loads(language string, its []Load) {
	if len(its) == 0 {
		return
	}
	t.line("")
	t.line("%s", language)
	t.line("  %-22s%7s%14s%9s%9s%8s%9s", fmt.Sprintf("%d at a time", its[0].Concurrency), "runs", "runs a second", "p50 ms", "p99 ms", "p99/p50", "x bare")
	for _, l := range its {
		if l.Runs > 0 {
			t.line("  %-22s%7d%14s%9s%9s%8.2f%9.2f", l.Variant, l.Runs, Figure(l.PerSecond), Figure(l.P50), Figure(l.P99), l.Tail, l.Ratio)
		}
		t.broken(l.Variant, l.Error)
	}
	for _, l := range its {
		t.ready(l.Ready)
	}
}

// ready writes how many found a sandbox ready, and why the others did not.
func (t *table) ready(r *Ready) {
	if r == nil {
		return
	}
	text := fmt.Sprintf("%d of %d found a sandbox ready", r.Found, r.Runs)
	for _, why := range slices.Sorted(maps.Keys(r.Cold)) {
		text += fmt.Sprintf("; %d: %s", r.Cold[why], why)
	}
	t.wrap("  ", text)
}

func (t *table) broken(variant, why string) {
	if why != "" {
		t.wrap("  ", fmt.Sprintf("%s broke: %s", variant, why))
	}
}

// Figure writes a number with about three digits that count.
func Figure(f float64) string {
	switch {
	case f < 10:
		return strconv.FormatFloat(f, 'f', 2, 64)
	case f < 100:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// Shorten returns as much of text as so many characters hold, with a mark where something is missing.
func Shorten(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}
