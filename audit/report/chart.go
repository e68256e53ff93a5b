package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The size of a chart in pixels, and its margins.
const (
	chartWidth  = 760
	chartHeight = 180
	chartLeft   = 44 // for the axis labels
	chartBottom = 22 // for the times
)

// chart is a bar chart, stacked by outcome.
type chart struct {
	Title  string
	Width  int
	Height int
	Bars   []bar
	Lines  []gridLine
	Labels []axisLabel
}

// bar is the bar of an interval. Its title is for pointers and screen readers.
type bar struct {
	Title string
	Parts []barPart
}

type barPart struct {
	Class               string
	X, Y, Width, Height string
}

// gridLine is a horizontal line with its number.
type gridLine struct {
	Y    string
	Text string
}

// axisLabel is a label below the chart.
type axisLabel struct {
	X, Anchor string
	Text      string
}

// classes are the CSS classes of the outcomes, in order.
var classes = [outcomes]string{"fine", "exited", "stopped", "refused"}

// barData is a bar to be drawn.
type barData struct {
	name string
	bars bars
}

// drawChart draws slots. Each slot whose number is a multiple of every has a label.
func drawChart(title string, slots []barData, every int) chart {
	c := chart{Title: title, Width: chartWidth, Height: chartHeight}
	var maxCount int64 = 1
	for _, s := range slots {
		maxCount = max(maxCount, s.bars.sum())
	}
	maxCount = roundUp(maxCount)
	high := float64(chartHeight - chartBottom - 8)
	y := func(n int64) float64 { return 8 + high*(1-float64(n)/float64(maxCount)) }
	for _, n := range slices.Compact([]int64{0, maxCount / 2, maxCount}) {
		c.Lines = append(c.Lines, gridLine{pixel(y(n)), shortNumber(n)})
	}
	wide := float64(chartWidth-chartLeft) / float64(max(len(slots), 1))
	gap := min(wide*0.2, 4)
	for i, s := range slots {
		x := chartLeft + float64(i)*wide
		if i%every == 0 {
			c.Labels = append(c.Labels, axisLabel{pixel(x + wide/2), textAnchor(i, len(slots)), s.name})
		}
		if s.bars.sum() == 0 {
			continue
		}
		b := bar{Title: fmt.Sprintf("%s: %s", s.name, describe(s.bars))}
		var base int64
		for how, n := range s.bars {
			if n > 0 {
				b.Parts = append(b.Parts, barPart{classes[how], pixel(x + gap/2), pixel(y(base + n)), pixel(wide - gap), pixel(y(base) - y(base+n))})
				base += n
			}
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}

// textAnchor keeps the first and the last label inside the chart.
func textAnchor(i, all int) string {
	switch {
	case all > 3 && i == 0:
		return "start"
	case all > 3 && i == all-1:
		return "end"
	}
	return "middle"
}

func describe(b bars) string {
	var words []string
	for how, n := range b {
		if n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, classNames[how]))
		}
	}
	return strings.Join(words, ", ")
}

var classNames = [outcomes]string{"ended well", "ended with an error of their own", "were stopped or failed", "were refused"}

func pixel(f float64) string { return fmt.Sprintf("%.1f", f) }

// roundUp rounds n up to a number whose only digit other than 0 is 1 or even.
func roundUp(n int64) int64 {
	unit := int64(1)
	for n > 10*unit {
		unit *= 10
	}
	top := (n + unit - 1) / unit * unit
	if top%2 == 1 && top > 1 {
		top++
	}
	return top
}

// shortNumber returns a number in few characters.
func shortNumber(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// drawTimeline draws hours in units that give at most about a hundred bars.
func drawTimeline(hours map[int64]bars) chart {
	if len(hours) == 0 {
		return drawChart("Runs", nil, 1)
	}
	all := slices.Sorted(maps.Keys(hours))
	first, last := time.Unix(all[0]*3600, 0).UTC(), time.Unix(all[len(all)-1]*3600, 0).UTC()
	u := units[slices.IndexFunc(units, func(u unit) bool { return last.Sub(first) < u.span || u.span == math.MaxInt64 })]
	var slots []barData
	at := map[time.Time]int{}
	for t := u.floor(first); !t.After(last) && len(slots) < maxSlots; t = u.floor(t.Add(u.step)) {
		at[t] = len(slots)
		slots = append(slots, barData{name: t.Format(u.layout)})
	}
	for hour, b := range hours {
		i, ok := at[u.floor(time.Unix(hour*3600, 0).UTC())]
		if !ok {
			continue // a wrong clock, centuries off; the tables count it
		}
		for how, n := range b {
			slots[i].bars[how] += n
		}
	}
	return drawChart("Runs by "+u.name+" (UTC)", slots, (len(slots)+7)/8)
}

const maxSlots = 1200

// unit is the duration of a bar, for charts shorter than span.
type unit struct {
	span         time.Duration
	name, layout string
	step         time.Duration // from the start of a unit into the next
	floor        func(time.Time) time.Time
}

const oneDay = 24 * time.Hour

var units = []unit{
	{4 * oneDay, "hour", "2 Jan 15:00", time.Hour, func(t time.Time) time.Time { return t.Truncate(time.Hour) }},
	{100 * oneDay, "day", "2 Jan", oneDay, midnight},
	{700 * oneDay, "week", "2 Jan 2006", 7 * oneDay, func(t time.Time) time.Time {
		return midnight(t).AddDate(0, 0, -(int(t.Weekday())+6)%7)
	}},
	{3000 * oneDay, "month", "Jan 2006", 31 * oneDay, func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	}},
	{math.MaxInt64, "year", "2006", 366 * oneDay, func(t time.Time) time.Time { return time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC) }},
}

func midnight(t time.Time) time.Time { return t.Truncate(24 * time.Hour) } // of UTC

// drawHoursOfDay draws the hours of the day.
func drawHoursOfDay(hours [24]bars) chart {
	slots := make([]barData, 24)
	for i, b := range hours {
		slots[i] = barData{fmt.Sprintf("%02d:00", i), b}
	}
	return drawChart("Runs by hour of the day (UTC)", slots, 3)
}
