package page

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ledongthuc/pdf"
)

// maxPages is the maximum number of pages read from a PDF.
const maxPages = 2000

// readPDF writes a header before each page. The library panics on many malformed files.
func readPDF(p *Page, s Source) {
	if s.Cut {
		p.Note = fmt.Sprintf("the PDF is longer than the %d bytes that were read of it, and its end tells where its pages are", len(s.Body))
		return
	}
	var b strings.Builder
	defer func() {
		if r := recover(); r != nil {
			p.Note = "the PDF is broken: " + SingleLine(fmt.Sprint(r), 200)
		}
		p.Text = b.String()
	}()
	r, err := pdf.NewReader(bytes.NewReader(s.Body), int64(len(s.Body)))
	if err != nil {
		p.Note = "the PDF can't be read: " + SingleLine(err.Error(), 200)
		return
	}
	p.Title = r.Trailer().Key("Info").Key("Title").Text()
	n := r.NumPage()
	empty := true
	for i := 1; i <= min(n, maxPages) && b.Len() < MaxText; i++ {
		text, why := pdfPageText(r, i)
		fmt.Fprintf(&b, "--- page %d of %d ---\n%s\n", i, n, text)
		empty = empty && text == ""
		if why != "" && p.Note == "" {
			p.Note = fmt.Sprintf("page %d can't be read, or not all of it: %s", i, why)
		}
	}
	switch {
	case n > maxPages:
		p.Note = fmt.Sprintf("only the first %d of %d pages were read", maxPages, n)
	case empty && p.Note == "":
		p.Note = "the PDF has no text: its pages may be pictures"
	}
}

// pdfPageText returns the text of a page, and a reason if it is incomplete.
func pdfPageText(r *pdf.Reader, i int) (text, why string) {
	w := &pdfWriter{fonts: map[string]pdf.TextEncoding{}}
	defer func() {
		if r := recover(); r != nil {
			why = SingleLine(fmt.Sprint(r), 200)
		}
		text = strings.TrimSpace(w.b.String())
	}()
	if w.page = r.Page(i); !w.page.V.IsNull() {
		pdf.Interpret(w.page.V.Key("Contents"), w.execute)
	}
	return "", ""
}

// pdfWriter joins the words of a page by their positions: a lower position is a new line.
type pdfWriter struct {
	page  pdf.Page
	fonts map[string]pdf.TextEncoding
	font  pdf.TextEncoding
	b     strings.Builder
}

// spaceStep is the distance between letters, in thousandths of their size, that counts as a space.
const spaceStep = 180

// execute executes an operator of the page's description.
func (w *pdfWriter) execute(stack *pdf.Stack, operator string) {
	args := make([]pdf.Value, min(stack.Len(), 16))
	for i := len(args) - 1; i >= 0; i-- {
		args[i] = stack.Pop()
	}
	last := pdf.Value{}
	if len(args) > 0 {
		last = args[len(args)-1]
	}
	switch operator {
	case "Tf":
		if len(args) == 2 {
			w.setFont(args[0].Name())
		}
	case "BT", "T*":
		w.separateBy("\n")
	case "Td", "TD", "Tm":
		if operator != "Tm" && last.Float64() == 0 {
			w.separateBy(" ")
			return
		}
		w.separateBy("\n")
	case "'", "\"":
		w.separateBy("\n")
		w.writeText(last)
	case "Tj":
		w.writeText(last)
	case "TJ":
		for i := range last.Len() {
			if one := last.Index(i); one.Kind() == pdf.String {
				w.writeText(one)
			} else if one.Float64() < -spaceStep {
				w.separateBy(" ")
			}
		}
	}
}

func (w *pdfWriter) setFont(name string) {
	if _, known := w.fonts[name]; !known {
		font := w.page.Font(name)
		w.fonts[name] = font.Encoder()
	}
	w.font = w.fonts[name]
}

func (w *pdfWriter) writeText(v pdf.Value) {
	if w.b.Len() > MaxText {
		panic("its text is too long") // only a panic stops the library
	}
	text := v.RawString()
	if w.font != nil {
		text = w.font.Decode(text)
	}
	w.b.WriteString(text)
}

// separateBy ends a word or a line, once.
func (w *pdfWriter) separateBy(by string) {
	if s := w.b.String(); s != "" && !strings.HasSuffix(s, "\n") && !(by == " " && strings.HasSuffix(s, " ")) {
		w.b.WriteString(by)
	}
}
