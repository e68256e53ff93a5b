package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/bench"
)

// nasty is what a tool may say.
const nasty = `<script>alert("1")</script> & ]]> ` + "\x00\x1b[31m" + ` 'quoted' ` + "\xff\xfe"

func spread(runs int, least, p10, p50, p90, p99, longest float64) bench.Spread {
	return bench.Spread{Runs: runs, Min: least, P10: p10, P50: p50, P90: p90, P99: p99, Max: longest}
}

func sample() bench.Report {
	return bench.Report{
		Began:   time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Machine: bench.Machine{CPU: "Fast & Furious <9000>", Cores: 4, Kernel: "Linux 6.18", User: "root", Versions: map[string]string{"python": "3.12 at /" + strings.Repeat("long/", 40) + "python3"}},
		Latency: []bench.Latency{
			{Language: "python", Variant: bench.Bare, What: "python3 main.py: print(1)", Spread: spread(100_000, 6.1, 6.5, 7.4, 9.9, 12345.678, 23456.789), Ratio: 1},
			{Language: "python", Variant: "docker run, runsc", Spread: spread(20, 10234.5, 12345.6, 23456.7, 34567.8, 45678.9, 56789.1)},
			{Language: "python", Variant: bench.Warm, Spread: spread(100, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6), Ratio: 0.176},
			{Language: "python", Variant: "podman exec", Error: nasty},
			{Language: "shell", Variant: bench.Cold, Spread: bench.Spread{Runs: 1}, Error: nasty},
			{Language: bench.Start, Variant: bench.Bare, Spread: spread(1, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9)},
		},
		Load: []bench.Load{
			{Language: "python", Variant: bench.Bare, Concurrency: 128, Spread: spread(123456, 1, 1, 10.5, 20, 30, 31), PerSecond: 41152},
			{Language: "python", Variant: bench.Warm, Concurrency: 128, Spread: spread(10, 1, 1, 10.5, 20, 30, 31), PerSecond: 20576, Ratio: 0.5, Error: nasty},
		},
	}
}

func TestSVG(t *testing.T) {
	var b bytes.Buffer
	if err := SVG(&b, sample()); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	elements, words := parsed(t, whole)
	for _, want := range []string{"bare", "docker run, runsc", "python", "7.40 ms   1.00 × bare", "1.30 ms   0.18 × bare", "0.50 × bare", "Fast & Furious <9000>", "2026-03-04", "broken: <script>"} {
		if !strings.Contains(words, want) {
			t.Errorf("nothing of %q in the text of the plot:\n%s", want, words)
		}
	}
	for _, never := range []string{"href", "url(", "@import", "src="} {
		if strings.Contains(whole, never) {
			t.Errorf("it refers to something outside: %s", never)
		}
	}
	for name, want := range map[string]int{"svg": 1, "script": 0, "image": 0, "circle": 4} {
		if elements[name] != want {
			t.Errorf("%d elements %s, want %d", elements[name], name, want)
		}
	}
	if !strings.Contains(whole, "prefers-color-scheme:dark") {
		t.Error("nothing is said about the dark")
	}
}

// TestSVGOfNothing draws a report in which all was left out.
func TestSVGOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := SVG(&b, bench.Report{}); err != nil {
		t.Fatal(err)
	}
	parsed(t, b.String())
}

// parsed reads XML to its end, and checks that everything is drawn within the page.
func parsed(t *testing.T, text string) (elements map[string]int, words string) {
	t.Helper()
	elements = map[string]int{}
	page := map[string]float64{}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return elements, words
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.CharData:
			words += string(token) + "\n"
		case xml.StartElement:
			elements[token.Name.Local]++
			for _, a := range token.Attr {
				n, err := strconv.ParseFloat(a.Value, 64)
				switch which := strings.TrimRight(strings.TrimPrefix(a.Name.Local, "c"), "12"); {
				case token.Name.Local == "svg":
					page[a.Name.Local] = n
				case a.Name.Local == "cx" && (n < marksFrom || n > marksTo):
					t.Errorf("a time is drawn at %v, beside the scale", n)
				case which == "x" && (err != nil || n < 0 || n > page["width"]), which == "y" && (err != nil || n < 0 || n > page["height"]):
					t.Errorf("%s at %s=%s is outside of the page %v", token.Name.Local, a.Name.Local, a.Value, page)
				}
			}
		}
	}
}
