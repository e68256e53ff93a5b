package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

//go:embed page.html
var pageText string

//go:embed parts.html
var partsText string

//go:embed page.css
var pageStyle string

// About describes a report and its log.
type About struct {
	Version      string    // of sandboxmcp
	Made         time.Time // when
	Organisation string    // owner of the report; "" leaves a blank line
	Machine      string    // host name
	Since, Until time.Time // chosen range; zero is the log's first and last row
	Scope        []string  // descriptions of the chosen rows; none is all
	Log          Log
}

// Log is the state of the log when the report was made.
type Log struct {
	Path    string
	Keys    []string // ids of the signing keys
	Checked bool     // the whole log was verified, with the result in Report; otherwise only its remarks count
	audit.Report
}

// Write writes the page, which has no scripts or external resources.
func (s *Summary) Write(w io.Writer, a About) error {
	page, err := template.New("report").Funcs(template.FuncMap{
		"plain": safetext.Line, "timestamp": timestamp, "bytes": formatBytes, "count": groupDigits, "pixel": pixel, "seconds": formatMilliseconds,
		"pair": func(all ...any) []any { return all },
	}).Parse(partsText + `{{define "page"}}` + pageText + "{{end}}")
	if err != nil {
		return err
	}
	return page.ExecuteTemplate(w, "page", s.view(a))
}

// maxRows is the maximum number of rows in a table.
const maxRows = 25

// view returns the values of the page, in page order.
func (s *Summary) view(a About) map[string]any {
	denials := func(c count) int64 { return c.Denied }
	return map[string]any{
		"About": a, "Style": template.CSS(pageStyle), "Rows": s.rows, "First": s.first, "Last": s.last,
		"Cards": s.cards(a), "Timeline": drawTimeline(s.runs.hours), "Clock": drawHoursOfDay(s.runs.ofDay), "Legend": s.legend(),
		"Ended": s.runs.ended.sum(), "Started": s.runs.started, "Open": len(s.runs.open), "Lost": s.runs.lost,
		"Wall": s.runs.wall, "CPU": s.runs.cpu,
		"How": s.runs.how.top(maxRows, byCount), "Languages": s.runs.language.top(maxRows, byCount),
		"Namespaces": s.runs.space.top(maxRows, byCount),
		"Backends":   s.runs.backend.top(maxRows, byCount), "Refusals": s.runs.refusals.top(maxRows, byCount),
		"Longest": s.runs.withLinks(s.runs.longest), "Hungry": s.runs.withLinks(s.runs.hungry),
		"Runs": s.runs.list.All(), "OlderRuns": s.runs.list.Left, "Policies": s.runs.policies.top(maxRows, byCount),
		"Denials": s.runs.withLinks(s.runs.denied.All()), "OlderDenials": s.runs.denied.Left,
		"Weak": s.runs.withLinks(s.layers.list.All()), "OlderWeak": s.layers.list.Left,
		"Reporting": s.layers.reported, "Without": s.layers.without, "LayerRefused": s.layers.refused.top(maxRows, byCount),
		"Held":    s.layers.inForce.top(maxRows, func(c count) int64 { return c.N + c.Denied }),
		"Missing": s.layers.missing.top(maxRows, byCount),
		"Denied":  s.egress.names.top(maxRows, denials), "Allowed": s.egress.names.top(maxRows, byCount),
		"Reasons": s.egress.reasons.top(maxRows, byCount), "Unlisted": s.egress.unlisted, "Sent": s.egress.sent, "Received": s.egress.received,
		"DeniedRows": s.egress.denied, "AllowedRows": s.egress.allowed,
		"Asked": s.people.asked, "Verdicts": s.people.verdicts.top(maxRows, byCount), "Answers": s.people.list.All(),
		"OlderAnswers": s.people.list.Left,
		"Secrets":      s.secrets.names.top(maxRows, byCount), "Leased": s.secrets.leased, "Changes": s.secrets.changes.All(),
		"OlderChanges": s.secrets.changes.Left,
		"Packages":     s.packages.top(maxNewest, byCount), "Limits": s.limits.top(maxRows, byCount),
		"Created": s.sessions.created, "Killed": s.sessions.killed, "Cells": s.sessions.cells, "Restarts": s.sessions.restarts,
		"SessionLanguages": s.sessions.language.top(maxRows, byCount), "Why": s.sessions.why.top(maxRows, byCount),
		"Files": s.files.all, "FileRuns": s.files.runs, "Withheld": s.files.withheld, "WithheldFiles": s.files.list.All(),
		"OlderWithheld": s.files.list.Left,
		"Kinds":         s.kinds.top(maxNewest, byCount), "Keys": maxKeys,
	}
}

// card is a number at the top of the page.
type card struct {
	Number, Text, Link string
	Bad                bool
}

func (s *Summary) cards(a About) []card {
	c := []card{
		{groupDigits(s.runs.ended.sum()), "runs", "runs", false},
		{groupDigits(s.runs.ended[outcomeRefused]), "refused", "refusals", false},
		{groupDigits(s.layers.without), "runs without some layer", "without", s.layers.without > 0},
		{groupDigits(s.egress.denied), "connections and names denied", "denied", false},
		{groupDigits(s.egress.allowed), "allowed", "allowed", false},
		{groupDigits(s.people.verdicts.sum()), "decisions by people", "people", false},
		{groupDigits(s.secrets.leased), "secrets leased to runs", "secrets", false},
		{groupDigits(s.files.withheld), "artifacts withheld", "withheld", s.files.withheld > 0},
	}
	switch {
	case a.Log.Bad != nil:
		c = append(c, card{"✗", "the log was changed", "log", true})
	case a.Log.Checked:
		c = append(c, card{"✓", "the log is as it was written", "log", false})
	default:
		c = append(c, card{"?", "the log was not checked", "log", true})
	}
	return c
}

func (t *counter[K]) sum() int64 {
	n := t.other.N
	for _, c := range t.of {
		n += c.N
	}
	return n
}

// entry explains a colour.
type entry struct {
	Class, Text, N string
}

func (s *Summary) legend() []entry {
	var l []entry
	for how, n := range s.runs.ended {
		l = append(l, entry{classes[how], classNames[how], groupDigits(n)})
	}
	return l
}

// groupDigits returns a number with separators: 1,234,567.
func groupDigits(n int64) string {
	digits := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// formatBytes returns a number of bytes in the unit that fits.
func formatBytes(n any) string {
	var f float64
	switch n := n.(type) {
	case int64:
		f = float64(n)
	case float64:
		f = n
	}
	unit := "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if f < 1000 {
			break
		}
		f, unit = f/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%.0f B", f)
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

// formatMilliseconds returns a number of milliseconds in seconds, or from a minute on in minutes and seconds.
func formatMilliseconds(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	if d < time.Minute {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
