package page

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

const paragraph = `The kernel refuses what a program asks for when its rules say so, and the program learns of that by an error that it can read. ` +
	`Whoever wrote the rules has thought about what a program of this kind needs, and about nothing else; that is why they are short. `

func story(extra string) string {
	return `<!doctype html><html><head><title> A  page
of mine </title><link rel="canonical" href="/own"><meta charset="utf-8">` +
		`</head><body><nav><a href="/menu">Menu</a></nav><article><h1>Heading</h1><p>` +
		strings.Repeat(paragraph, 4) + `</p><p>See <a href="../other?a=1&amp;b=2#c">the other</a> and <img src="/i.png" alt="a picture">.</p>` +
		extra +
		`<ul><li>one</li><li>two</li></ul><table><tr><th>a_b_c</th><th>d</th></tr><tr><td>1*2*3</td><td>4</td></tr></table><pre>x = 1
  y = 2</pre></article><footer>© me</footer></body></html>`
}

func read(t *testing.T, body, kind, format string) Page {
	t.Helper()
	p := Read(Source{URL: "https://example.com/dir/page", Type: kind, Format: format, Body: []byte(body)})
	wellFormed(t, p)
	return p
}

// wellFormed checks the properties of every page.
func wellFormed(t *testing.T, p Page) {
	t.Helper()
	for _, s := range []string{p.Text, p.Title, p.Note, p.Canonical} {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
			return r != '\n' && r != '\t' && unicode.IsControl(r) ||
				isDeceptive(r)
		}) {
			t.Errorf("%.200q can't be shown", s)
		}
	}
	if strings.Contains(p.Title+p.Note+p.Canonical, "\n") || len(p.Text) > MaxText {
		t.Errorf("title %q, note %q, %d bytes", p.Title, p.Note, len(p.Text))
	}
}

func TestHTML(t *testing.T) {
	for format, want := range map[string][]string{
		Markdown: {"# Heading", "[the other](https://example.com/other?a=1&b=2#c)", "- one", "```", "a picture", "| a_b_c | d |",
			"| 1*2*3 | 4 |"},
		Text: {"Heading\n", "See the other and a picture", "- one\n- two", "x = 1\n  y = 2"},
		HTML: {"Heading</h2>", `href="https://example.com/other?a=1&amp;b=2#c"`, "<li>one</li>"},
		"":   {"# Heading"},
	} {
		p := read(t, story(""), "text/html; charset=utf-8", format)
		for _, s := range want {
			if !strings.Contains(p.Text, s) {
				t.Errorf("%s: no %q in\n%s", format, s, p.Text)
			}
		}
		if p.Title != "A page of mine" || p.Canonical != "https://example.com/own" || p.Type != "text/html" || p.Note != "" {
			t.Errorf("%s: %+v", format, p)
		}
	}
}

// TestHidden has words that no reader of the page would see.
func TestHidden(t *testing.T) {
	for name, extra := range map[string]string{
		"comment": `<!-- SECRET -->`, "script": `<script>SECRET</script>`, "style": `<style>SECRET</style>`,
		"template": `<template>SECRET</template>`,
		"noscript": `<noscript>SECRET</noscript>`, "hidden": `<p hidden>SECRET</p>`, "hidden value": `<p hidden="hidden">SECRET</p>`,
		"display": `<p style="display:none">SECRET</p>`, "spelled": `<p style="DISPLAY : none !important">SECRET</p>`,
		"in it":           `<div style="color:red;display:none"><p>x<b>SECRET</b></p></div>`,
		"commented style": `<p style="display:/**/none">SECRET</p>`,
		"visibility":      `<p style="visibility: hidden">SECRET</p>`, "opacity": `<p style="opacity:0.0">SECRET</p>`,
		"size": `<p style="font-size:0px">SECRET</p>`,
		"box":  `<div style="width:0;height:0;overflow:hidden">SECRET</div>`, "height": `<div style="max-height:0;overflow:hidden">SECRET</div>`,
		"off": `<p style="position:absolute;left:-9999px">SECRET</p>`, "indent": `<p style="text-indent:-9999px">SECRET</p>`,
		"clip":        `<p style="clip:rect(0 0 0 0)">SECRET</p>`,
		"clip pixels": `<p style="clip: rect(1px, 1px, 1px, 1px)">SECRET</p>`, "transparent": `<p style="color:transparent">SECRET</p>`,
		"input": `<input type="hidden" value="SECRET">`, "textarea": `<textarea>SECRET</textarea>`,
		"iframe": `<iframe srcdoc="SECRET">SECRET</iframe>`,
		"svg":    `<svg><text>SECRET</text></svg>`, "object": `<object>SECRET</object>`, "dialog": `<dialog>SECRET</dialog>`,
		"meta":  `<meta name="description" content="SECRET">`,
		"sheet": `<style>.x1, p.q { color: red } .gone{display:none}</style><p class="a gone">SECRET</p>`,
		"by id": `<style>#gone { visibility:hidden }</style><p id="gone">SECRET</p>`,
		"math":  `<math><annotation>SECRET</annotation></math>`, "data link": `<a href="data:text/html,SECRET">a</a>`,
		"script link": `<a href="javascript:SECRET">a</a>`,
		"handler":     `<p onclick="SECRET" data-x="SECRET" style="--x:SECRET" aria-label="SECRET">a</p>`,
		"select":      `<select><option>SECRET</option></select>`,
	} {
		for _, format := range []string{Markdown, Text, HTML} {
			for _, body := range []string{story(extra), "<p>Heading</p>" + extra} { // an article, and another page
				if p := read(t, body, "text/html", format); strings.Contains(p.Text, "SECRET") || !strings.Contains(p.Text, "Heading") {
					t.Errorf("%s, %s: %s", name, format, p.Text)
				}
			}
		}
	}
	for name, extra := range map[string]string{
		"visible":     `<p style="display:block; width:0.5em">SEEN</p>`,
		"class":       `<style>.other{display:none} .x .gone{display:none} @media print{.gone{display:none}}</style><p class="gone">SEEN</p>`,
		"open dialog": `<dialog open>SEEN</dialog>`, "zero margin": `<p style="left:0;opacity:0.5;text-indent:-1em">SEEN</p>`,
		"details": `<details><summary>x</summary>SEEN</details>`,
	} {
		if p := read(t, `<body><p>a</p>`+extra, "text/html", Text); !strings.Contains(p.Text, "SEEN") {
			t.Errorf("%s: %s", name, p.Text)
		}
	}
}

func TestWholeBody(t *testing.T) {
	p := read(t, `<title>t</title><body><div><a href="/1">One link</a></div><div>two words</div></body>`, "text/html", Text)
	if p.Text != "One link\ntwo words\n" {
		t.Errorf("%q", p.Text)
	}
	p = read(t, `<body><div id="root"></div><script>render()</script>`, "text/html", "")
	if !strings.Contains(p.Note, "without running its scripts") {
		t.Errorf("%+v", p)
	}
	p = read(t, `<head><base href="https://cdn.example/x/"></head><body><a href="y">z</a>`, "text/html", "")
	if !strings.Contains(p.Text, "https://cdn.example/x/y") {
		t.Errorf("%+v", p)
	}
}

func TestCharsets(t *testing.T) {
	for name, tt := range map[string]struct{ body, kind, want string }{
		"header":          {"caf\xe9 \x80", "text/plain; charset=windows-1252", "café €"},
		"meta":            {"<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2", "text/html", "Привет"},
		"http-equiv":      {`<meta http-equiv="Content-Type" content="text/html; charset=shift_jis"><p>` + "\x93\xfa\x96{", "text/html", "日本"},
		"mark":            {"\xef\xbb\xbf<p>né", "text/html; charset=iso-8859-1", "né"},
		"utf-16":          {"\xff\xfea\x00b\x00\xe9\x00", "text/plain", "abé"},
		"none, is utf-8":  {"<p>" + strings.Repeat("a ", 1000) + "né", "text/html", "né"},
		"none, is not":    {"<p>n\xe9e", "text/html", "née"},
		"unknown":         {"<p>n\xc3\xa9", "text/html; charset=klingon", "né"},
		"said, is wrong":  {"a\xffb", "text/plain; charset=utf-8", "a\ufffdb"},
		"header and meta": {"<meta charset=utf-8><p>n\xe9", "text/html; charset=iso-8859-1", "né"},
	} {
		if p := read(t, tt.body, tt.kind, Text); !strings.Contains(p.Text, tt.want) {
			t.Errorf("%s: %.200q, want %q", name, p.Text, tt.want)
		}
	}
}

func TestKinds(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\x01", 100)
	for name, tt := range map[string]struct{ body, header, kind, text, note string }{
		"json":       {`{"a": 1}`, "application/json", "application/json", `{"a": 1}`, ""},
		"json types": {`{"a": 1}`, "application/ld+json; charset=utf-8", "application/ld+json", `{"a": 1}`, ""},
		"xml":        {`<a><b/></a>`, "application/xml", "application/xml", `<a><b/></a>`, ""},
		"csv":        {"a,b\n1,2\n", "text/csv", "text/csv", "a,b\n1,2\n", ""},
		"markdown":   {"# a\n", "text/markdown", "text/markdown", "# a\n", ""},
		"no header":  {"just text", "", "text/plain", "just text", ""},
		"sniffed":    {"<!doctype html><p>hello", "", "text/html", "hello", ""},
		"picture":    {png, "image/png", "image/png", "", "this is not text: image/png, 208 bytes"},
		"a liar":     {png, "text/plain", "image/png", "", "not text: image/png"},
		"a stream":   {png, "application/octet-stream", "image/png", "", "not text"},
		"empty":      {"", "text/html", "text/html", "", "empty"},
	} {
		if tt.body == "" {
			continue
		}
		p := read(t, tt.body, tt.header, "")
		if p.Type != tt.kind || !strings.Contains(p.Text, tt.text) || !strings.Contains(p.Note, tt.note) || (tt.note == "") != (p.Note == "") {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain é 漢字\n\ttab": "plain é 漢字\n\ttab", "a\x1b]0;x\x07b\x1b[31m": `a\x1b]0;x\x07b\x1b[31m`, "\u202etxt.exe\u2066": "txt.exe",
		"a\u200bb\ufeff\u00ad": "ab", "x\U000e0041\U000e0042y": "xy", "a\r\nb\rc\u2028d\u0085e": "a\nb\nc\nd\ne", "\xff": "\ufffd",
		"👩\u200d💻 ❤\ufe0f": "👩\u200d💻 ❤\ufe0f", "a\U000e0101\ufe01b\u3164": "ab",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	text := "first paragraph\n\nsecond one\nwith two lines\n\nthird é é é é"
	for maxBytes := 1; maxBytes < len(text)+2; maxBytes++ {
		var all string
		for offset, next := 0, -1; next != 0; offset = next {
			var piece string
			piece, next = Cut(text, offset, maxBytes)
			if !utf8.ValidString(piece) || len(piece) > max(maxBytes, utf8.UTFMax) || piece == "" {
				t.Fatalf("%d: %q", maxBytes, piece)
			}
			all += piece
		}
		if all != text {
			t.Fatalf("%d: %q", maxBytes, all)
		}
	}
	if piece, next := Cut(text, 0, 20); piece != "first paragraph\n\n" || next != 17 {
		t.Errorf("%q %d", piece, next)
	}
	if piece, next := Cut(text, 1000, 20); piece != "" || next != 0 {
		t.Errorf("%q %d", piece, next)
	}
	if piece, next := Cut(text, -5, 1000); piece != text || next != 0 {
		t.Errorf("%q %d", piece, next)
	}
}

// TestCrooked parses pages that attack the parser.
func TestCrooked(t *testing.T) {
	n := hosttest.Rounds(1, 10) // for pages that take seconds at 10
	for name, body := range map[string]string{
		"nested":     strings.Repeat("<div>", 1_000_000) + "deep",
		"siblings":   strings.Repeat("<div>a</div>", 300_000),
		"tables":     strings.Repeat("<table><tr><td>", 100_000) + "x",
		"formatting": strings.Repeat("<b><i>", 50_000) + "x" + strings.Repeat("<p>y", 100),
		"attributes": "<p " + strings.Repeat("a=b ", 200_000) + ">x",
		"a tag":      "<" + strings.Repeat("a", 3<<20),
		"a comment":  "<!--" + strings.Repeat("-", 3<<20),
		"entities":   strings.Repeat("&amp;", 500_000),
		"spans":      "<table><tr><td colspan=1000000000 rowspan=1000000000>a<td>b<tr><td>c</table>" + paragraph,
		"rows":       "<table>" + strings.Repeat("<tr><td>a<td>b", n*10_000),
		"columns":    "<table><tr>" + strings.Repeat("<td>a", n*30_000) + strings.Repeat("<tr><td>b", 20),
		"lists":      strings.Repeat("<ul><li>x", 400),
		"quotes":     strings.Repeat("<blockquote>x", 200+20*n),
	} {
		for _, format := range []string{Markdown, HTML} {
			read(t, body, "text/html", format)
		}
		t.Log(name)
	}
	if p := read(t, strings.Repeat("<div>", 1000)+"deep<script>no</script>", "text/html", ""); !strings.Contains(p.Text, "deep") ||
		strings.Contains(p.Text, "no") || !strings.Contains(p.Note, "malformed HTML") {
		t.Errorf("%+v", p)
	}
}

// document returns a PDF of one page with this content.
func document(content string, filter bool, more string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	dict := ""
	if filter {
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		w.Write([]byte(content))
		w.Close()
		content, dict = z.String(), "/Filter /FlateDecode "
	}
	var at []int
	for i, object := range []string{
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> " + more + " >>",
		fmt.Sprintf("<< %s/Length %d >>\nstream\n%s\nendstream", dict, len(content), content),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>", "<< /Title (The title) >>",
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R /Info 6 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, xref)
	return b.Bytes()
}

const description = "BT /F1 12 Tf 72 700 Td (Hello) Tj 0 -14 Td [(se) 20 (cond) -300 (line)] TJ T* (caf\\351) Tj ET"

func TestPDF(t *testing.T) {
	for _, packed := range []bool{false, true} {
		p := read(t, string(document(description, packed, "")), "application/octet-stream", "")
		if p.Type != "application/pdf" || p.Text != "--- page 1 of 1 ---\nHello\nsecond line\ncafé\n" || p.Title != "The title" || p.Note != "" {
			t.Errorf("%+v", p)
		}
	}
}

// TestBrokenPDF parses truncated and changed files, and some that unpack endlessly.
func TestBrokenPDF(t *testing.T) {
	whole := document(description, true, "")
	for i := 0; i < len(whole); i += 7 {
		if p := read(t, string(whole[:i]), "application/pdf", ""); i < len(whole)-40 && p.Note == "" && p.Text == "" && i > 0 {
			t.Errorf("cut at %d: %+v", i, p)
		}
		changed := bytes.Clone(whole)
		changed[i] ^= 0x55
		read(t, string(changed), "application/pdf", "")
	}
	p := Read(Source{Type: "application/pdf", Body: whole[:100], Cut: true})
	if !strings.Contains(p.Note, "longer than") || p.Text != "" {
		t.Errorf("%+v", p)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(story("<!--x-->")), "text/html", "markdown")
	f.Add(document(description, true, ""), "application/pdf", "")
	f.Add(document(description, false, ""), "", "")
	f.Add([]byte("\xff\xfea\x00"), "text/plain; charset=utf-16", "text")
	f.Add([]byte("<table><p><svg><style><!--</style><b>"), "text/html", "html")
	f.Fuzz(func(t *testing.T, body []byte, kind, format string) {
		wellFormed(t, Read(Source{URL: "https://example.com/a", Type: kind, Format: format, Body: body}))
	})
}
