package pipeline

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw flow.svg anew")

// TestFlowPicture compares flow.svg with flow.txt.
func TestFlowPicture(t *testing.T) {
	source, err := os.ReadFile("flow.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := drawFlow(string(source))
	if *update {
		if err := os.WriteFile("flow.svg", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("flow.svg"); err != nil || string(got) != want {
		t.Errorf("flow.svg is not what flow.txt says: go test ./pipeline -run TestFlowPicture -update (%v)", err)
	}
}

// drawFlow draws stages as rectangles in rows of five, with arrows between them.
func drawFlow(source string) string {
	const columns, width, height, gapX, gapY = 5, 164, 84, 24, 36
	type stage struct{ name, does string }
	var stages []stage
	for l := range strings.Lines(source) {
		if name, does, ok := strings.Cut(strings.TrimSpace(l), ": "); ok && !strings.HasPrefix(l, "#") {
			stages = append(stages, stage{name, does})
		}
	}
	rows := (len(stages) + columns - 1) / columns
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" role="img">
<title>The flow of a request</title>
<style>
rect { fill: #f6f8fa; stroke: #57606a } text { fill: #1f2328; font-size: 12px } .name { font-weight: bold; font-size: 15px }
path { stroke: #57606a; fill: none; stroke-width: 1.5; marker-end: url(#tip) } #tip path { fill: #57606a; marker-end: none }
@media (prefers-color-scheme: dark) {
rect { fill: #161b22; stroke: #8b949e } text { fill: #e6edf3 } path { stroke: #8b949e } #tip path { fill: #8b949e }
}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
`, columns*(width+gapX)-gapX+4, rows*(height+gapY)-gapY+4)
	for i, s := range stages {
		x, y := 2+i%columns*(width+gapX), 2+i/columns*(height+gapY)
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", x, y, width, height)
		fmt.Fprintf(&b, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", x+12, y+24, escape(s.name))
		for n, l := range fold(s.does, 24) {
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text>\n", x+12, y+44+16*n, escape(l))
		}
		switch {
		case i == len(stages)-1:
		case i%columns < columns-1:
			fmt.Fprintf(&b, "<path d=\"M%d %dh%d\"/>\n", x+width, y+height/2, gapX)
		default: // down, back to the left, and into the next row
			fmt.Fprintf(&b, "<path d=\"M%d %dv%dH%dv%d\"/>\n", x+width/2, y+height, gapY/2, 2+width/2, gapY/2)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func escape(text string) string { return strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(text) }

// fold breaks text into lines of at most so many characters.
func fold(text string, columns int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= columns {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
