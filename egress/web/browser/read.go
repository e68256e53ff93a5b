package browser

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"image/png"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

//go:embed read.js
var reader string

// readPage reads the page in its current state. Scripts of a page may block the answer after its time is up.
func (t *visit) readPage(ctx context.Context) (Page, error) {
	var dom struct {
		URL, Title, HTML, Text string
		Cut, Loading           bool
	}
	expression := fmt.Sprintf("(%s)(%d)", strings.TrimSpace(reader), t.MaxHTML)
	err := t.runStoppingScripts(ctx, func(ctx context.Context) error {
		for {
			err := t.evaluate(ctx, expression, &dom)
			// A page that has navigated since shows nothing of the new page yet.
			if err != nil || !dom.Loading || t.WaitFor != "" || time.Until(t.until) < pollInterval {
				return err
			}
			if _, err := t.awaitBriefly(ctx, 0); errors.Is(err, ErrLost) {
				return err
			}
		}
	})
	if err != nil {
		return Page{}, err
	}
	p := Page{URL: printable(dom.URL, maxAddress), Title: printable(dom.Title, maxTitle), Status: t.status, Cut: dom.Cut}
	p.HTML, p.Text = p.truncate(dom.HTML, t.MaxHTML), p.truncate(dom.Text, t.MaxHTML)
	if t.Picture {
		t.addPicture(ctx, &p)
	}
	t.addNotes(&p)
	return p, nil
}

// Limits of a page's address and title, in characters.
const maxAddress, maxTitle = 8000, 1000

// truncate cuts s to maxLen bytes, and sets Cut if it did. The browser should do that already, but is not trusted.
func (p *Page) truncate(s string, maxLen int) string {
	if len(s) <= maxLen {
		return s
	}
	p.Cut = true
	return strings.ToValidUTF8(s[:maxLen], "")
}

// runStoppingScripts calls do; if a busy page does not answer, it stops the page's scripts and tries again.
func (t *visit) runStoppingScripts(ctx context.Context, do func(context.Context) error) error {
	err := within(ctx, max(time.Until(t.until), readGrace/2), do)
	for n := range 3 {
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrLost) {
			return err
		}
		if t.crashed {
			return errCrashed
		}
		// Both work in the middle of a script. The second one ends an endless loop.
		t.tell(t.tab.id, "Emulation.setScriptExecutionDisabled", object{"value": true})
		t.tell(t.tab.id, "Runtime.terminateExecution", object{})
		err = within(ctx, readGrace<<n, do)
	}
	return err
}

func within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// addPicture adds a picture of the page, or of its top.
func (t *visit) addPicture(ctx context.Context, p *Page) {
	height := float64(Height)
	err := t.runStoppingScripts(ctx, func(ctx context.Context) error {
		var layout struct {
			Size struct{ Height float64 } `json:"cssContentSize"`
		}
		err := t.tab.call(ctx, "Page.getLayoutMetrics", object{}, &layout)
		height = max(height, layout.Size.Height)
		return err
	})
	if height > MaxHeight {
		p.Notes = append(p.Notes, fmt.Sprintf("the picture shows the first %d pixels of %.0f", MaxHeight, height))
		height = MaxHeight
	}
	for _, h := range []float64{height, Height} {
		if err != nil {
			break
		}
		if p.Picture, err = t.takePicture(ctx, h); err == nil && len(p.Picture) <= MaxPicture {
			return
		}
		p.Picture = nil
		if h == height && height > Height && err == nil {
			p.Notes = append(p.Notes, fmt.Sprintf("a picture of the whole page is larger than %d MB: it shows the first %d pixels", MaxPicture>>20,
				Height))
		}
	}
	why := fmt.Sprintf("it is larger than %d MB", MaxPicture>>20)
	if err != nil {
		why = err.Error()
	}
	p.Notes = append(p.Notes, "there is no picture: "+why)
}

func (t *visit) takePicture(ctx context.Context, height float64) (picture []byte, err error) {
	beyond := height > Height
	err = within(ctx, 4*readGrace, func(ctx context.Context) error {
		var taken struct{ Data []byte }
		err := t.tab.call(ctx, "Page.captureScreenshot", object{
			"format": "png", "captureBeyondViewport": beyond,
			"clip": object{"x": 0, "y": 0, "width": Width, "height": height, "scale": 1},
		}, &taken)
		if err != nil {
			return err
		}
		picture = taken.Data
		return checkPicture(picture)
	})
	return picture, err
}

// checkPicture refuses a picture of another size than requested: viewers allocate memory for the claimed size.
func checkPicture(b []byte) error {
	size, err := png.DecodeConfig(bytes.NewReader(b))
	if err != nil || size.Width > Width || size.Height > MaxHeight {
		return errors.New("what the browser sent is none of the page")
	}
	return nil
}

// addNotes adds notes about refused actions of the page.
func (t *visit) addNotes(p *Page) {
	for _, n := range []struct {
		count int
		what  string
	}{
		{t.dialogs, "%d dialogs were dismissed"},
		{t.popups, "%d windows that the page opened were closed"},
		{t.downloads, "%d downloads were refused"},
	} {
		if n.count > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf(n.what, n.count))
		}
	}
}

// printable returns the start of a text, in a single line.
func printable(s string, maxRunes int) string {
	s = safetext.Line(s)
	if r := []rune(s); len(r) > maxRunes {
		return string(r[:maxRunes]) + "..."
	}
	return s
}
