package page

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template/parse"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// TestWords: all that the page says stands in one file. Templates have no words of their own, none is missing, and none
// is left over.
func TestWords(t *testing.T) {
	var all map[string]string
	body, err := assets.ReadFile("assets/words.json")
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil || len(all) < 100 {
		t.Fatalf("%d words, %v", len(all), err)
	}
	var sources strings.Builder
	must := func(b []byte, err error) {
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(b)
	}
	names, _ := fs.Glob(assets, "assets/*.html")
	for _, name := range names {
		must(assets.ReadFile(name))
	}
	files, _ := filepath.Glob("*.go")
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			must(os.ReadFile(name))
		}
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:\{\{w |\bwordFor\()"([^"]+)"`).FindAllStringSubmatch(sources.String(), -1) {
		used[m[1]] = true
		if all[m[1]] == "" {
			t.Errorf("there is no word %s", m[1])
		}
	}
	// whose names are put together
	made := regexp.MustCompile(`^(outcome|state|severity|scope|set|path)_|^egress\.|^(egress|host|package|changes)$`)
	for name := range all {
		if !used[name] && !made.MatchString(name) {
			t.Errorf("%s is said nowhere", name)
		}
	}
	tags := regexp.MustCompile(`<[^>]*>?|&[a-z]+;|[^<]*>`)
	fine := map[string]bool{"CSV": true, "JSON": true, "SHA-256": true, "s": true, "p50": true, "p90": true, "p99": true,
		"sandboxmcp page": true, "sandboxmcp token create NAME --person --namespace NS": true,
		"a": true, "d": true, "j": true, "k": true, "n": true, "p": true, "Enter": true,
		// the last are parts of tags
		"all": true, "err": true, "first": true, "selected": true, "ok": true, "refused": true, "exit": true, "checked": true}
	var walk func(n parse.Node)
	walk = func(n parse.Node) {
		switch n := n.(type) {
		case *parse.ListNode:
			if n != nil {
				for _, one := range n.Nodes {
					walk(one)
				}
			}
		case *parse.IfNode:
			walk(n.List)
			walk(n.ElseList)
		case *parse.RangeNode:
			walk(n.List)
			walk(n.ElseList)
		case *parse.WithNode:
			walk(n.List)
			walk(n.ElseList)
		case *parse.TextNode:
			for _, text := range strings.FieldsFunc(tags.ReplaceAllString(string(n.Text), "\x00"),
				func(r rune) bool { return strings.ContainsRune("\x00\n·/,:+", r) }) {
				text = strings.TrimSpace(text)
				if regexp.MustCompile(`\pL`).MatchString(text) && !fine[text] && !strings.ContainsAny(text, `="`) {
					t.Errorf("a template says %q", text)
				}
			}
		}
	}
	for _, one := range templates().Templates() {
		if one.Tree != nil {
			walk(one.Tree.Root)
		}
	}
}

func TestScreen(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":                    {"a\nb\tc", "[]a\nb\tc"},
		"colour":                   {"\x1b[31mred\x1b[0m x", "[f2]red[] x"},
		"bright on dark":           {"\x1b[1;92;44mx", "[b f11 k5]x"},
		"reset without parameters": {"\x1b[1mx\x1b[my", "[b]x[]y"},
		"256 colours":              {"\x1b[38;5;196mx\x1b[38;5;9my\x1b[48;5;232mz", "[f2]x[f10]y[f10 k1]z"},
		"true colour":              {"\x1b[38;2;0;255;0mx", "[f3]x"},
		"inverse":                  {"\x1b[7mx\x1b[27my", "[inv]x[]y"},
		"the cursor does not move": {"a\x1b[2Jb\x1b[Hc\x1b[10;10Hd\x1b[?1049he", "[]abcde"},
		"no title, no clipboard":   {"\x1b]0;title\x07a\x1b]52;c;eHh4\x1b\\b", "[]ab"},
		"no link":                  {"\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\", "[]click"},
		"a string without an end":  {"a\x1bPqqqq", "[]a"},
		"a charset":                {"\x1b(0qqq", "[]qqq"},
		"a carriage return stays":  {"10%\r20%\r\nx", "[]10%\r20%\nx"},
		"a backspace":              {"_\bx", "[]x"},
		"bidi":                     {"a\u202eb", `[]a\u202eb`},
		"a C1 control":             {"a\u009b31mb", `[]a\u009b31mb`},
		"no text":                  {"a\xffb", `[]a\xffb`},
		"too many parameters":      {"\x1b[" + strings.Repeat("1;", 200) + "1mx", "[]" + strings.Repeat("1;", 73) + "1mx"}, // broken off
		"no number":                {"\x1b[99999999999999999999mx\x1b[38mx\x1b[38;5mx\x1b[38;2;1mx", "[]x[f1]xx"},
	} {
		var whole, pieces string
		say := func(all []span) (text string) {
			class := "-"
			for _, s := range all {
				if s.Class != class {
					text += "[" + s.Class + "]"
				}
				text, class = text+s.Text, s.Class
			}
			return text
		}
		whole = say(new(screen).write([]byte(c.in)))
		s := new(screen)
		var all []span
		for _, b := range []byte(c.in) {
			all = append(all, s.write([]byte{b})...)
		}
		pieces = say(all)
		if name != "no number" && whole != c.want {
			t.Errorf("%s: got %q, want %q", name, whole, c.want)
		}
		if strings.ContainsAny(c.in, "\b\r") || name == "no text" || name == "no number" {
			continue // of which each piece is one
		}
		if pieces != whole {
			t.Errorf("%s, byte by byte: got %q, want %q", name, pieces, whole)
		}
	}
}

// FuzzScreen: whatever a program writes, the screen has no control characters except those of lines, and only our
// classes.
func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b]0;x\x07\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range new(screen).write(b) {
			if strings.ContainsFunc(s.Text, func(r rune) bool {
				return r < 0x20 && r != '\n' && r != '\r' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0
			}) {
				t.Errorf("%q shows %q", b, s.Text)
			}
			if strings.Trim(s.Class, "fkbdiunv 0123456789") != "" {
				t.Errorf("%q has the class %q", b, s.Class)
			}
		}
	})
}

// TestQueue: a browser that is slower than a program gets the end of the output, and learns that some is missing.
func TestQueue(t *testing.T) {
	q := &queue{more: make(chan struct{}, 1)}
	for range 200 {
		_ = q.add(control.Part{Stdout: strings.Repeat("x", 64<<10)})
	}
	_ = q.add(control.Part{Stdout: "the end\n"})
	size, told, last := 0, false, ""
	for _, s := range q.popUpdates() {
		told = told || s.Event == wordFor("output_left_out")
		for _, one := range s.Spans {
			size += len(one.Text)
			last = one.Text
		}
	}
	if size > 2*maxUnsent || !told || last != "the end\n" {
		t.Errorf("%d bytes, told: %v, the last are %q", size, told, last)
	}
}

func TestChart(t *testing.T) {
	days := []control.Day{{Day: "2020-01-01", Runs: 9}}
	c := newChart("x", days, 30, true, count, layer{"good", "ok", func(d control.Day) float64 { return float64(d.Runs) }})
	for _, b := range c.Bars {
		if b.H > chartHeight || b.Y < chartTop-0.01 {
			t.Errorf("got %+v", b)
		}
	}
	for v, want := range map[float64]float64{0: 1, 1: 1, 1.1: 2, 9: 10, 10: 10, 11: 20, 350: 400, 0.03: 0.04} {
		if got := niceTop(v); got < v || got-want > 1e-9 || want-got > 1e-9 {
			t.Errorf("%v: got %v, want %v", v, got, want)
		}
	}
}
