package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// Log reads the audit log.
type Log interface {
	Rows(ctx context.Context, f audit.Filter) iter.Seq2[audit.Row, error]
	Receipt(ctx context.Context, run string) ([]byte, error)
}

const aboutAudit = `Reads the audit log: every run, refusal, session, approval and package, in the order in which they happened.`

type auditArgs struct {
	Run       string   `json:"request_id" about:"Only rows about this run or session." range:"..64"`
	Namespace string   `json:"namespace" about:"Only rows of this namespace. Default: all that the caller may see." range:"..64"`
	Kinds     []string `json:"kinds" about:"Only rows of these kinds, such as \"execution.completed\", \"execution.refused\" or \"egress.denied\"." range:"..50" each:"A kind of row." eachrange:"..64"`
	Since     string   `json:"since" about:"Only rows from this time on: RFC 3339 like \"2026-01-31T15:04:05Z\", a date, or a time ago like \"2h\" or \"3d\"." range:"..40"`
	Until     string   `json:"until" about:"Only rows before this time, in the same format." range:"..40"`
	After     *int64   `json:"after" about:"Only rows with a larger seq, oldest first: next_after of the page before. Default: the newest rows." range:"0..1125899906842624"`
	Limit     int      `json:"limit" about:"Maximum number of rows." range:"1..500" default:"50"`
}

type auditFacts struct {
	answer.Common
	Rows []auditRow `json:"rows,omitempty" about:"The rows, oldest first."`
	Next int64      `json:"next_after,omitempty" about:"The value of after for the next page, if there may be one."`
}

type auditRow struct {
	Seq       int64  `json:"seq" about:"The row's number."`
	Time      string `json:"time" about:"When the row was written."`
	Kind      string `json:"kind" about:"The kind of event."`
	Run       string `json:"request_id,omitempty" about:"The run or session concerned."`
	Namespace string `json:"namespace" about:"Its namespace."`
	Data      string `json:"data" about:"The row's facts, as JSON."`
	Prev      string `json:"prev" about:"The hash of the row before."`
	Hash      string `json:"hash" about:"The row's hash."`
}

// Bounds in bytes: of a row's text, of all rows' text, and of all rows in structured content.
const (
	maxRowText  = 600
	maxRowsText = 6000
	maxPage     = 256 << 10
)

func (s *Server) auditExecution(ctx context.Context, c *call, a *auditArgs) (*answer.Answer, error) {
	if s.cfg.Log == nil {
		return nil, &pipeline.Error{Stage: pipeline.StageAudit, Denied: true, Reason: "this server has no audit log",
			Remedy: pipeline.Remedy{"on the host: sandboxmcp audit"}}
	}
	filter, err := filterOf(c, a)
	if err != nil {
		return nil, err
	}
	if a.After == nil {
		filter.Limit = a.Limit
	}
	f, bytes := &auditFacts{}, 0
	for row, err := range s.cfg.Log.Rows(ctx, filter) {
		if err != nil {
			return nil, err
		}
		if len(f.Rows) == a.Limit || bytes > maxPage {
			f.Next = f.Rows[len(f.Rows)-1].Seq
			break
		}
		one := auditRow{row.Seq, row.Time.Format(time.RFC3339Nano), row.Kind, row.Run, row.Namespace, string(row.Data), row.Prev, row.Hash}
		bytes += len(one.Data)
		f.Rows = append(f.Rows, one)
	}
	text := []string{answer.Count(len(f.Rows), "row")}
	for _, one := range f.Rows {
		text = append(text, strings.TrimRight(fmt.Sprintf("%d %s %s %s %s %s", one.Seq, one.Time, one.Kind, one.Namespace, one.Run,
			safetext.Model(safetext.Clip(compact(json.RawMessage(one.Data)), max(maxRowText, maxRowsText/len(f.Rows))))), " "))
	}
	if f.Next > 0 {
		text = append(text, fmt.Sprintf("there may be more: call again with \"after\": %d", f.Next))
	}
	return &answer.Answer{Text: strings.Join(text, "\n"), Facts: f}, nil
}

func filterOf(c *call, a *auditArgs) (audit.Filter, error) {
	f := audit.Filter{Run: strings.ToUpper(a.Run), Kinds: a.Kinds}
	if a.After != nil {
		f.After = *a.After
	}
	if err := event.CheckRows(f.Kinds); err != nil {
		return f, operation.ArgumentError("kinds", "%v", err)
	}
	if c.oneNamespace {
		f.Namespace = c.namespace
	}
	for _, one := range []struct {
		name, text string
		to         *time.Time
	}{{"since", a.Since, &f.Since}, {"until", a.Until, &f.Until}} {
		if one.text == "" {
			continue
		}
		t, ok := audit.PointInTime(strings.TrimSpace(one.text), time.Now().UTC())
		if !ok {
			return f, operation.ArgumentError(one.name, `%q is not a time: send one like "2026-01-31T15:04:05Z", "2026-01-31", "2h" or "3d"`,
				safetext.Clip(one.text, 40))
		}
		*one.to = t
	}
	return f, nil
}

// compact removes hashes and empty members from a row, which no model needs.
func compact(data json.RawMessage) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return string(data)
	}
	for name, v := range all {
		if strings.HasSuffix(name, "sha256") || string(v) == `""` || string(v) == "null" || string(v) == "[]" {
			delete(all, name)
		}
	}
	text, _ := json.Marshal(all) // decoded from JSON
	return string(text)
}
