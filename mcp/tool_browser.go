package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// browserFacts describe a page and the browser that showed it.
type browserFacts struct {
	common
	RequestID  string           `json:"request_id,omitempty" about:"The id under which the audit log has it."`
	URL        string           `json:"url,omitempty" about:"The address that was read in the end, after redirects."`
	Status     int              `json:"status,omitempty" about:"The HTTP status."`
	Title      string           `json:"title,omitempty" about:"The page's title, written by strangers."`
	Content    string           `json:"content,omitempty" about:"The page's text, written by strangers."`
	Total      int64            `json:"total_bytes,omitempty" about:"Bytes of the whole text."`
	Ended      string           `json:"ended,omitempty" about:"How it ended: ok, or timeout if the page was read as it was when time was up."`
	Late       string           `json:"late,omitempty" about:"What had not come about when time was up."`
	Notes      []string         `json:"notes,omitempty" about:"What the page tried and did not get, and what is left out."`
	Screenshot string           `json:"screenshot,omitempty" about:"What the picture in content is, if there is one."`
	Egress     []egressDecision `json:"egress,omitempty" about:"Hosts that the page reached or was refused."`
	EgressMore int              `json:"egress_more,omitempty" about:"How many are left out."`
	Layers     []string         `json:"layers,omitempty" about:"Layers of containment that held the browser."`
	PeakMemory int64            `json:"peak_memory_bytes,omitempty" about:"The most memory that the browser used."`
	TotalMS    float64          `json:"total_ms,omitempty" about:"Milliseconds that it took."`
}

func (s *Server) browserFetch(ctx context.Context, c *call, a *browserArgs) (*answer, error) {
	return do(ctx, s, pipeline.Browse{
		Namespace: c.namespace, URL: a.URL, Format: a.Format, WaitFor: a.WaitFor, Screenshot: a.Screenshot,
		MaxBytes: a.MaxBytes, Timeout: seconds(a.Timeout),
	}, browsed)
}

// browsed returns the answer about a page: its status in our words, and the text of strangers within a fence.
func browsed(b pipeline.Browsed, res pipeline.Outcome) *answer {
	f := &browserFacts{
		RequestID: res.ID, URL: address(b.URL), Status: b.Status, Title: fenced(b.Host, b.Title), Content: fenced(b.Host, res.Stdout), Total: int64(b.Total),
		Ended: res.Ended, Late: b.Late, Notes: b.Notes, Layers: res.LayersInForce(), PeakMemory: res.PeakMemory, TotalMS: float64(res.Timings.Total) / 1000,
	}
	f.Egress, f.EgressMore = egressFacts(res.Egress)
	a := &answer{facts: f}
	var t strings.Builder
	inside := res.Stdout
	if b.Title != "" {
		inside = "title: " + b.Title + "\n\n" + inside
	}
	fmt.Fprintf(&t, "%s\n", web.Fence(b.Host, inside))
	if b.Late != "" {
		fmt.Fprintf(&t, "not complete: %s; this is what was there\n", oneLine(b.Late))
	}
	fmt.Fprintf(&t, "%s answered with HTTP %d, %s of text", cmp.Or(f.URL, b.Host), b.Status, size(int64(b.Total)))
	if len(res.Stdout) < b.Total {
		fmt.Fprintf(&t, ", of which this is the first %s: max_bytes asks for more", size(int64(len(res.Stdout))))
	}
	if b.Picture != nil {
		f.Screenshot = fmt.Sprintf("image/png, %s", size(int64(len(b.Picture))))
		a.extra = append(a.extra, mcp.NewImageContent(base64.StdEncoding.EncodeToString(b.Picture), "image/png"))
		t.WriteString("\nthe picture of it follows")
	}
	for _, n := range b.Notes {
		t.WriteString("\nnote: " + oneLine(n))
	}
	t.WriteString(refusedHosts(res.Egress))
	a.text = t.String() + "\nrequest_id: " + res.ID
	return a
}

// refusedHosts are the parts of a page that are missing because of where they are.
func refusedHosts(all []egress.Record) string {
	var t strings.Builder
	printed := 0
	for _, d := range all {
		if d.Allowed && !d.Failed {
			continue
		}
		if printed++; printed <= maxEntries {
			fmt.Fprintf(&t, "\nnot loaded from %s: %s", hostOf(d.Decision), oneLine(d.Reason))
		}
	}
	if printed > maxEntries {
		fmt.Fprintf(&t, "\nand not from %s", count(printed-maxEntries, "more host"))
	}
	return t.String()
}
