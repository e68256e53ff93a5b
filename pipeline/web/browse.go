package web

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Browse reads a page as a browser displays it. It runs a browser of its own for the page, contained like any program
// and with the gateway of runs as its only egress, so that the policy applies to each redirect and each part of the
// page. Nothing of the browser is kept. Its answer is a [Browsed], whose text was written by strangers: web.Fence
// marks it.
type Browse struct {
	Namespace  string
	URL        string // http or https
	WaitFor    string // a CSS selector; "" waits for the page's load event
	Format     string // of package page; "" is Markdown
	Screenshot bool
	MaxBytes   int           // bytes of the text to return; 0 is all
	Timeout    time.Duration // after which the page is read as it is; 0 is the operator's
}

// Browsed is a page that a browser has read. The requested part of the text is the result's Stdout. A page that did not
// load in time is a result too: Late then names the missing part, and Ended is "timeout".
type Browsed struct {
	URL     string   `json:"url"` // after redirects
	Host    string   `json:"host"`
	Status  int      `json:"status,omitempty"` // 0 is unknown
	Title   string   `json:"title,omitempty"`
	Total   int      `json:"total_bytes"` // of the whole text
	Late    string   `json:"late,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Picture []byte   `json:"-"` // PNG; nil if not requested, or if a note says why
}

const toolBrowser = "browser_fetch"

// maxDOM bounds the HTML of a page, in bytes. Our memory holds several copies.
const maxDOM = 8 << 20

func (q Browse) Subject() pipeline.Subject { return pipeline.About(toolBrowser, q.Namespace, "") }

func (q Browse) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[Browsed], error) {
	q.Timeout = webTime(r.Pipeline, q.Timeout)
	b := &browsing{Run: r, Browse: q}
	return pipeline.PlanAction(ctx, r, q.URL, pipeline.Facts{"screenshot": q.Screenshot, "wait_for": q.WaitFor}, b.check,
		pipeline.Task[Browsed]{Stage: pipeline.StageBackend, Wall: b.Timeout + browserStart + browserEnd, Do: b.browse})
}

// browsing reads one page.
type browsing struct {
	*pipeline.Run
	Browse
	containment.Containment
	limits   pipeline.Bounds
	program  browser.Program
	at       string // the normalized address
	outbound *outbound.Session
}

// check refuses a page that policy forbids, or that can't be read here.
func (b *browsing) check(context.Context) error {
	if err := mayRead(b.Run, b.Browse.URL); err != nil {
		return err
	}
	if !slices.Contains([]string{"", page.Markdown, page.Text, page.HTML}, b.Format) {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%.100q is not a format of pages", b.Format), "use markdown, text or html")
	}
	if err := b.checkAddress(); err != nil {
		return err
	}
	if err := b.checkContained(); err != nil {
		return err
	}
	var err error
	if b.program, err = browser.FindProgram(pipeline.PackageSettings[Config](b.Pipeline).Browser); err != nil {
		return (&pipeline.Error{Stage: pipeline.StageBackend, Reason: err.Error(), Remedy: browser.Remedy(), Denied: true}).WithCause(err)
	}
	return nil
}

// checkAddress refuses hosts that the policy does not allow. The browser could not reach them either; this gives the
// reason.
func (b *browsing) checkAddress() error {
	at, err := web.Parse(b.Browse.URL)
	if err != nil {
		return webError(err)
	}
	port, err := web.Port(at)
	if err != nil {
		return webError(err)
	}
	b.at = at.String()
	d := pipeline.PackageSettings[Config](b.Pipeline).Policy.Decide(at.Hostname(), port)
	if d.Allowed {
		return nil
	}
	containment.AddDecisions(b.Run, []egress.Record{{Decision: egress.Decision{Name: d.Name, Port: d.Port, Reason: d.Reason}}})
	b.AddRow(containment.EgressKind(false), pipeline.Facts{"name": d.Name, "port": d.Port, "reason": d.Reason})
	return pipeline.Refuse(pipeline.StageEgress, "the page may not be read: "+d.Why(), pageRemedy(at.Hostname())...)
}

// checkContained decides the containment of the browser.
func (b *browsing) checkContained() error {
	var err error
	if b.Containment, err = containment.Choose(b.Pipeline, "process", "", nil); err != nil {
		return pipeline.Refuse(pipeline.StageBackend, "a browser needs the process backend, which is off here: "+err.Error(), "")
	}
	if b.Base == "landlock" {
		return &pipeline.Error{Stage: pipeline.StageEgress, Layer: backends.LayerNet, Denied: true,
			Reason: "the profile landlock has no network namespace for egress, which a browser needs",
			Remedy: pipeline.Remedy{"use the profile hardened"}}
	}
	limits, err := browserLimits(b.Pipeline.Config.Caps)
	if err != nil {
		return err
	}
	limits.Wall = b.Timeout + browserStart + browserEnd
	b.limits = pipeline.Bounds{Limits: limits}
	b.Outcome.Backend, b.Outcome.Profile = b.Backend.Name(), b.Profile
	b.Describe(b.Run, validate.Checked{}, b.limits)
	b.Facts["name"] = toolBrowser
	return nil
}

// Time of a browser in addition to the page's own: to start on a busy machine, and to be read and closed.
const browserStart, browserEnd = 30 * time.Second, time.Minute

// browserLimits returns the limits of a browser, up to the operator's caps. Its threads count as processes: about 120
// for an empty page.
func browserLimits(caps pipeline.Bounds) (backends.Limits, error) {
	want := backends.Limits{RAM: 1 << 30, CPU: 2, Processes: 500, Disk: 256 << 20}
	least := pipeline.Bounds{Limits: backends.Limits{RAM: 384 << 20, Processes: 200, Disk: 64 << 20}}
	got := pipeline.Bounds{Limits: want}.AtMost(caps)
	for _, l := range pipeline.AllBounds {
		if l.Get(got) < l.Get(least) && l.Get(least) > 0 {
			return want, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("a browser needs %s %s, but the operator's cap is %s",
				pipeline.FormatNumber(l.Get(least)), l.Unit, pipeline.FormatNumber(l.Get(got))),
				remedy.Raise.With("caps."+l.Name))
		}
	}
	return got.Limits, nil
}
