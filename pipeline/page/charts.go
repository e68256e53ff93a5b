package page

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// chart is a picture of some figures per day, in its own units: it scales with the page.
type chart struct {
	Title  string
	Legend []layer
	Bars   []bar
	Lines  []mark // of the scale
	Days   []mark
}

// bar is a column, or a part of one. Its text is a tooltip.
type bar struct {
	X, Y, W, H float64
	Class, Say string
}

type mark struct {
	At   float64
	Text string
}

// The size of a chart, in its units.
const (
	chartWidth  = 720.0
	chartHeight = 140.0
	chartLeft   = 84.0
	chartTop    = 8.0
)

// layer is one figure per day, drawn above or beside the previous one.
type layer struct {
	Class, Name string
	Of          func(control.Day) float64
}

// newChart draws days; show formats a number.
func newChart(title string, days []control.Day, n int, stacked bool, show func(float64) string, layers ...layer) chart {
	c := chart{Title: title, Legend: layers}
	top := 0.0
	for _, d := range days {
		sum := 0.0
		for _, l := range layers {
			if v := l.Of(d); stacked {
				sum += v
			} else {
				sum = max(sum, v)
			}
		}
		top = max(top, sum)
	}
	top = niceTop(top)
	for i := range 3 {
		v := top * float64(i) / 2
		c.Lines = append(c.Lines, mark{chartTop + chartHeight*(1-float64(i)/2), show(v)})
	}
	first := time.Now().UTC().AddDate(0, 0, 1-n)
	slot := (chartWidth - chartLeft) / float64(n)
	for i := 0; i < n; i += max(1, n/6) {
		c.Days = append(c.Days, mark{chartLeft + slot*(float64(i)+0.5), first.AddDate(0, 0, i).Format("2 Jan")})
	}
	for _, d := range days {
		at, err := time.Parse(time.DateOnly, d.Day)
		if err != nil {
			continue
		}
		i := math.Round(at.Sub(first.Truncate(24*time.Hour)).Hours() / 24)
		x, below := chartLeft+slot*i+slot*0.1, 0.0
		width := slot * 0.8
		if !stacked {
			width /= float64(len(layers))
		}
		for j, l := range layers {
			v := l.Of(d)
			if v <= 0 {
				continue
			}
			h := chartHeight * v / top
			b := bar{X: x, W: width, H: h, Y: chartTop + chartHeight - h - below, Class: l.Class, Say: d.Day + ": " + show(v) + " " + l.Name}
			if stacked {
				below += h
			} else {
				b.X += width * float64(j)
			}
			c.Bars = append(c.Bars, b)
		}
	}
	return c
}

// niceTop returns a round number that is at least v.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 4, 6, 8, 10} {
		if n*unit >= v {
			return n * unit
		}
	}
	return 10 * unit
}

func count(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// millis formats a duration in milliseconds.
func millis(ms float64) string {
	switch {
	case ms >= 60_000:
		return fmt.Sprintf("%.1f min", ms/60_000)
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms == 0:
		return "0"
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}

// bytesText formats a number of bytes.
func bytesText(n int64) string {
	v := float64(n)
	for _, unit := range []string{"B", "KB", "MB", "GB"} {
		if v < 1024 {
			if unit == "B" || v >= 100 {
				return fmt.Sprintf("%.0f %s", v, unit)
			}
			return fmt.Sprintf("%.1f %s", v, unit)
		}
		v /= 1024
	}
	return fmt.Sprintf("%.1f TB", v)
}

// charts shows the figures of the last days.
func (p *Page) charts(w http.ResponseWriter, r *http.Request, v *visitor) error {
	n, _ := strconv.Atoi(r.URL.Query().Get("days"))
	if n < 1 || n > 400 {
		n = 30
	}
	f, err := control.Call(r.Context(), p.c.Client, control.GetFigures,
		control.FiguresQuery{InNamespace: control.InNamespace{Namespace: r.URL.Query().Get("namespace")}, Days: n})
	if err != nil {
		return err
	}
	if f.Partly {
		w.Header().Set("Refresh", "2") // seconds
	}
	mega := func(v float64) string { return bytesText(int64(v * (1 << 20))) }
	all := []chart{
		newChart(wordFor("chart_runs"), f.Days, n, true, count,
			layer{"good", wordFor("runs_ok"), func(d control.Day) float64 { return float64(d.Runs - d.Failed) }},
			layer{"warn", wordFor("runs_failed"), func(d control.Day) float64 { return float64(d.Failed) }},
			layer{"bad", wordFor("runs_refused"), func(d control.Day) float64 { return float64(d.Refused) }}),
		newChart(wordFor("chart_time"), f.Days, n, false, millis,
			layer{"one", wordFor("p50"), func(d control.Day) float64 { return d.P50 }},
			layer{"two", wordFor("p95"), func(d control.Day) float64 { return d.P95 }}),
		newChart(wordFor("chart_memory"), f.Days, n, false, mega,
			layer{"one", wordFor("at_most"), func(d control.Day) float64 { return float64(d.Memory) / (1 << 20) }}),
	}
	most := int64(1)
	for _, d := range f.Domains {
		most = max(most, d.Allowed+d.Denied)
	}
	return p.renderSection(w, v, "charts", wordFor("charts"), map[string]any{"Charts": all, "Figures": f, "N": n,
		"Namespace": r.URL.Query().Get("namespace"),
		"Most":      most, "Spans": []int{7, 30, 90, 365}})
}
