// Package plot draws a report of package bench.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/bench"
)

// Where things are in the plot, in its own units. It grows downwards with what there is to show.
const (
	plotWidth = 900
	labelsEnd = 215 // names are left of it
	marksFrom = 230
	marksTo   = 690
	figures   = 705 // to the right of it
	row       = 22
)

// style is all that says how it looks. Viewers that know of dark and light show it as their user wants it, others light.
const style = `text{font:13px system-ui,sans-serif;fill:#1f2328}.head{font-weight:600;font-size:15px}.small{font-size:11px;fill:#59636e}
.page{fill:#fff}.mark{fill:#8c959f}.ours{fill:#0969da}.bare{fill:#424a53}
.half{stroke:#fff;stroke-width:2}.tail{fill:none;stroke:#59636e;stroke-width:1.5}.line{stroke:#424a53;stroke-dasharray:3 3}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.page{fill:#0d1117}.mark{fill:#656c76}
.ours{fill:#4493f8}.bare{fill:#b7bdc8}.half{stroke:#0d1117}.tail{stroke:#9198a1}.line{stroke:#b7bdc8}}`

// SVG writes the report as a picture that needs nothing else.
func SVG(w io.Writer, r bench.Report) error {
	d := &drawing{y: 30}
	d.text(20, "head", "start", "What isolation costs: print(1), from request to result")
	d.y += 18
	d.text(20, "small", "start", r.Machine.Line()+", "+r.Began.Format("2006-01-02"))
	d.latencies(r)
	d.loads(r)
	var all bytes.Buffer
	fmt.Fprintf(&all, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", plotWidth, d.y, plotWidth, d.y)
	fmt.Fprintf(&all, "<title>What isolation costs, measured by sandboxmcp bench</title>\n<style>%s</style>\n", style)
	fmt.Fprintf(&all, `<rect class="page" width="%d" height="%d"/>`+"\n", plotWidth, d.y)
	all.Write(d.marks.Bytes())
	all.WriteString("</svg>\n")
	_, err := w.Write(all.Bytes())
	return err
}

// drawing is what was drawn so far, down to y.
type drawing struct {
	marks bytes.Buffer
	y     int
}

func (d *drawing) text(x float64, class, align, text string) {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a strings.Builder takes all
	fmt.Fprintf(&d.marks, `<text x="%.1f" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n", x, d.y, class, align, escaped.String())
}

func (d *drawing) bar(class string, from, to float64, height int) {
	fmt.Fprintf(&d.marks, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n", class, from, d.y-4-height/2, max(to-from, 2), height)
}

func (d *drawing) stroke(class string, x float64, from, to int) {
	fmt.Fprintf(&d.marks, `<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", class, x, x, from, to)
}

// latencies draws a rectangle for each variant of each language, on one logarithmic scale.
func (d *drawing) latencies(r bench.Report) {
	runs, least, longest := 0, math.Inf(1), 0.0
	for _, language := range bench.Languages() {
		for _, l := range bench.Of(r.Latency, language) {
			if l.Runs > 0 {
				runs, least, longest = max(runs, l.Runs), min(least, l.P10), max(longest, l.P99)
			}
		}
	}
	if runs == 0 {
		return
	}
	x := func(ms float64) float64 { // 0 is the shortest that is measured, a microsecond
		part := math.Log(max(ms, 0.001)/max(least, 0.001)) / math.Log(max(longest, 0.002)/max(least, 0.001)*1.001)
		return marksFrom + part*(marksTo-marksFrom)
	}
	d.y += 30
	d.text(20, "small", "start", fmt.Sprintf("One run at a time, up to %d of each, logarithmic. Box: p10 to p90. Stroke in it: p50. Ring: p99. Dashed: p50 of bare.", runs))
	for _, language := range bench.Languages() {
		its := bench.Of(r.Latency, language)
		if len(its) == 0 {
			continue
		}
		d.y += 30
		d.text(20, "head", "start", language)
		for _, l := range its {
			if l.Variant == bench.Bare && l.Runs > 0 {
				d.stroke("line", x(l.P50), d.y+6, d.y+6+len(its)*row)
			}
		}
		for _, l := range its {
			d.y += row
			d.latency(x, l)
		}
	}
}

func (d *drawing) latency(x func(ms float64) float64, l bench.Latency) {
	d.text(labelsEnd, "", "end", l.Variant)
	if l.Runs == 0 {
		d.text(marksFrom, "small", "start", "broken: "+bench.Shorten(l.Error, 80))
		return
	}
	d.bar(class(l.Variant), x(l.P10), x(l.P90), 12)
	d.stroke("half", x(l.P50), d.y-10, d.y+2)
	fmt.Fprintf(&d.marks, `<circle class="tail" cx="%.1f" cy="%d" r="3"/>`+"\n", x(l.P99), d.y-4)
	d.text(figures, "", "start", fmt.Sprintf("%s ms   %.2f × bare", bench.Figure(l.P50), l.Ratio))
}

// loads draws a bar for each way, as a part of the fastest of its language.
func (d *drawing) loads(r bench.Report) {
	if len(r.Load) == 0 {
		d.y += 10
		return
	}
	d.y += 40
	d.text(20, "small", "start", fmt.Sprintf("Runs a second with all cores busy, %d at a time. The longest bar of each language is its fastest.", r.Load[0].Concurrency))
	for _, language := range bench.Languages() {
		its := bench.Of(r.Load, language)
		fastest := 0.0
		for _, l := range its {
			fastest = max(fastest, l.PerSecond)
		}
		if fastest == 0 {
			continue
		}
		d.y += 30
		d.text(20, "head", "start", language)
		for _, l := range its {
			d.y += row
			d.text(labelsEnd, "", "end", l.Variant)
			d.bar(class(l.Variant), marksFrom, marksFrom+l.PerSecond/fastest*(marksTo-marksFrom), 12)
			d.text(figures, "", "start", fmt.Sprintf("%s a second   %.2f × bare", bench.Figure(l.PerSecond), l.Ratio))
		}
	}
	d.y += 25
}

func class(variant string) string {
	switch {
	case variant == bench.Bare:
		return "bare"
	case bench.Ours(variant):
		return "ours"
	}
	return "mark"
}
