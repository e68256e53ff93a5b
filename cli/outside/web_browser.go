package outside

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	pages "github.com/sandboxmcp/sandboxmcp/pipeline/web"
)

func (p commands) webBrowserCommand() *cli.Command {
	return &cli.Command{
		Name:  "browser",
		Usage: "read a page in a browser, with its scripts",
		UsageText: `sandboxmcp web browser URL [--wait-for SELECTOR] [--screenshot] [--out FILE] [--format markdown|text|html]
  [--max-bytes N] [--timeout SECONDS] [--namespace NS] [--json]`,
		Description: `It starts this machine's Chromium for the one page, in a sandbox. All connections go through the sandbox's
gateway: no part of the page reaches hosts that web.allow does not name. At the time limit, the page is printed as far
as it is loaded.

The picture is 1280 pixels wide and shows the whole page, up to 4000 pixels high. It is saved as a new file in the
current directory, or as FILE.

Example: sandboxmcp web browser https://example.com --wait-for ".content" --screenshot`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "wait-for", Usage: "wait for the CSS selector `SELECTOR`",
				DefaultText: "the load event, and what is fetched right after it"},
			&cli.BoolFlag{Name: "screenshot", Usage: "save a picture of the page, too"},
			&cli.StringFlag{Name: "out", Usage: "write the picture to the new file `FILE`", DefaultText: "HOST.png, here"},
			&cli.StringFlag{Name: "format", Usage: "show the page as `FORMAT`: markdown, text or html", Value: page.Markdown},
			&cli.IntFlag{Name: "max-bytes", Usage: "show `N` bytes of the text at most", DefaultText: "all"},
			command.NamespaceFlag(), webTimeout(), command.JSONFlag(),
		},
		Action: p.webBrowser,
	}
}

func (p commands) webBrowser(c *cli.Context) error {
	switch {
	case c.NArg() != 1:
		return exit.Usage("sandboxmcp web browser https://example.com", "browser needs the URL of one page")
	case !slices.Contains(pageFormats(), c.String("format")):
		return formatError(c)
	case c.Int("max-bytes") < 0:
		return exit.Usage("sandboxmcp web browser --help", "--max-bytes can't be less than 0")
	}
	return p.withWeb(c, func(ctx context.Context, line *pipeline.Pipeline) error {
		b, res, err := pipeline.Do(ctx, line, pages.Browse{
			Namespace: c.String("namespace"), URL: c.Args().First(), WaitFor: c.String("wait-for"), Format: c.String("format"),
			Screenshot: c.Bool("screenshot") || c.IsSet("out"), MaxBytes: c.Int("max-bytes"), Timeout: command.Seconds(c.Float64("timeout")),
		})
		if err != nil {
			return err
		}
		return p.showBrowsed(c, b, res)
	})
}

// showBrowsed saves the picture and prints the rest.
func (p commands) showBrowsed(c *cli.Context, b pages.Browsed, res pipeline.Outcome) error {
	file, err := p.savePicture(c.String("out"), b)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return terminal.WriteJSON(p.Out, browsedPage{Run: res.ID, Namespace: res.Namespace, Ended: res.Ended, URL: b.URL, Host: b.Host,
			Status: b.Status,
			Title:  b.Title, Late: b.Late, Notes: b.Notes, Untrusted: untrusted, Text: res.Stdout, Total: b.Total, Picture: file, Egress: res.Egress,
			Layers: res.Layers, Timings: res.Timings, Memory: res.PeakMemory, Receipt: res.Receipt})
	}
	if b.Status >= 400 {
		p.Messagef("%s answered with HTTP %d", b.Host, b.Status)
	}
	if b.Late != "" {
		p.Messagef("incomplete: %s; this is the text so far", b.Late)
	}
	for _, n := range b.Notes {
		p.Messagef("%s", n)
	}
	p.reportMissing(res.Egress)
	if len(res.Stdout) < b.Total {
		p.Messagef("these are %d bytes of %d", len(res.Stdout), b.Total)
	}
	if file != "" {
		p.Messagef("the picture is in %s", file)
	}
	text := res.Stdout
	if b.Title != "" {
		text = "title: " + b.Title + "\n\n" + text
	}
	_, err = io.WriteString(p.Out, web.Fence(terminal.Visible(b.Host), safetext.Text(text))+"\n")
	return err
}

// maxMissing bounds the hosts that are reported as not loaded: a page can name any number.
const maxMissing = 20

// reportMissing reports the hosts from which nothing was loaded.
func (p commands) reportMissing(all []egress.Record) {
	missing := slices.DeleteFunc(slices.Clone(all), func(d egress.Record) bool { return d.Allowed && !d.Failed })
	for _, d := range missing[:min(len(missing), maxMissing)] {
		p.Messagef("not loaded from %s: %s", d.Name, d.Reason)
	}
	if more := len(missing) - maxMissing; more > 0 {
		p.Messagef("and not from %d others: --json names them", more)
	}
}

// savePicture writes the picture to a new file and returns its name, or "" without a picture.
func (p commands) savePicture(to string, b pages.Browsed) (string, error) {
	if b.Picture == nil {
		return "", nil
	}
	write := func(w io.Writer) error { _, err := w.Write(b.Picture); return err }
	if to != "" && to != "-" {
		return to, p.WriteOut(to, write)
	}
	if to == "-" {
		return "", exit.Usage("--out page.png", "the picture can't go to standard output, where the text is")
	}
	name := pictureName(b.Host)
	var err error
	for n := 1; n <= 100; n++ { // never replace an existing file
		at := name + ".png"
		if n > 1 {
			at = fmt.Sprintf("%s-%d.png", name, n)
		}
		if err = p.WriteOut(at, write); err == nil {
			return at, nil
		}
	}
	return "", err
}

// pictureName returns a file name for a host, which a page has chosen.
func pictureName(host string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(host))
	if name = strings.Trim(filepath.Base(name), ".-"); name == "" {
		name = "page"
	}
	return name[:min(len(name), 100)]
}

// browsedPage is a page in the JSON output of web browser.
type browsedPage struct {
	Run       string           `json:"run"` // id in the audit log
	Namespace string           `json:"namespace"`
	Ended     string           `json:"ended"`
	URL       string           `json:"url"` // after redirects
	Host      string           `json:"host"`
	Status    int              `json:"status"`
	Title     string           `json:"title,omitempty"`
	Late      string           `json:"late,omitempty"`
	Notes     []string         `json:"notes,omitempty"`
	Untrusted string           `json:"untrusted"`
	Text      string           `json:"text"`
	Total     int              `json:"total_bytes"`
	Picture   string           `json:"picture,omitempty"` // path of the file
	Egress    []egress.Record  `json:"egress"`
	Layers    []backends.Layer `json:"layers"`
	Timings   pipeline.Timings `json:"timings"`
	Memory    int64            `json:"peak_memory"`
	Receipt   json.RawMessage  `json:"receipt,omitempty"`
}
