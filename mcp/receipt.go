package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/shelf"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// receipt returns the receipt of one run, which the log has for as long as there is a log. Runs of other
// namespaces are not there.
func (s *Server) receipt(ctx context.Context, c *call, id string) (*answer, error) {
	namespace, err := s.namespace(c.args, c.text("session_id"))
	if err != nil {
		return nil, err
	}
	last, err := s.lastRow(ctx, id)
	if err != nil {
		return nil, err
	}
	walled := s.cfg.Namespace != "" || c.has("namespace")
	if last.Seq == 0 || walled && last.Namespace != namespace {
		return nil, fmt.Errorf("run %s: %w", clip(id, 64), shelf.ErrUnknown)
	}
	if why := unsigned[last.Kind]; why != "" {
		return nil, &pipeline.Error{Stage: pipeline.StageAudit, Denied: true, Reason: fmt.Sprintf("run %s has no receipt: %s", clip(id, 64), why),
			Remedy: "audit_execution with its request_id tells what is known of it"}
	}
	return s.fetch(ctx, c, shelf.Record{ID: last.Run}, signer.ReceiptName, signer.ReceiptName)
}

// unsigned says why there is no receipt of a run whose last row is of that kind.
var unsigned = map[string]string{
	"execution.refused":    "it was refused, so nothing ran",
	event.ExecutionStarted: "it has not ended yet, or broke off",
	event.SessionCreated:   "it is a session, whose runs have one each",
	event.SessionKilled:    "it was a session, whose runs have one each",
}

// lastRow is the newest row about a run; without a number, there is none.
func (s *Server) lastRow(ctx context.Context, id string) (last audit.Row, err error) {
	if s.cfg.Log == nil {
		return last, &pipeline.Error{Stage: pipeline.StageAudit, Denied: true, Reason: "this server can't read an audit log"}
	}
	for row, err := range s.cfg.Log.Rows(ctx, audit.Filter{Run: strings.ToUpper(id), Limit: 1, Sealed: true}) {
		if err != nil {
			return last, err
		}
		last = row
	}
	return last, nil
}
