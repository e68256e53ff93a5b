package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// receipt returns the receipt of one run, which the log has for as long as there is a log. Runs of other
// namespaces are not there.
func (s *Server) receipt(ctx context.Context, c *call, q *artifactsArgs) (*answer, error) {
	id := q.Run
	last, err := s.lastRow(ctx, id)
	if err != nil {
		return nil, err
	}
	if last.Seq == 0 || c.walled && last.Namespace != c.namespace {
		return nil, fmt.Errorf("run %s: %w", clip(id, 64), results.ErrUnknown)
	}
	if why := unsigned[last.Kind]; why != "" {
		return nil, &pipeline.Error{Stage: pipeline.StageAudit, Denied: true, Reason: fmt.Sprintf("run %s has no receipt: %s", clip(id, 64), why),
			Remedy: pipeline.Remedy{"audit_execution with its request_id tells what is known of it"}}
	}
	a, err := s.fetch(ctx, q, results.Record{ID: last.Run}, signer.ReceiptName, signer.ReceiptName)
	bytes := q.Offset > 0 || q.MaxBytes != defaultInline // are counted
	if err != nil || q.Encoding != "text" || bytes {
		return a, err
	}
	text, err := s.cfg.Log.Receipt(ctx, last.Run)
	if err != nil {
		return nil, err
	}
	a.text, err = receiptText(text)
	return a, err
}

// receiptText is a receipt in words. That it was signed is what the log says: whoever has the key checks it.
func receiptText(envelope []byte) (string, error) {
	e, err := signer.ParseEnvelope(envelope)
	if err != nil {
		return "", err
	}
	type subject struct {
		Name   string
		Digest struct{ SHA256 string }
	}
	var response struct {
		Subject   []subject
		Predicate signer.Receipt
	}
	if err := json.Unmarshal(e.Payload, &response); err != nil {
		return "", fmt.Errorf("read the receipt: %w", err)
	}
	r := response.Predicate
	var text strings.Builder
	line := func(name, format string, a ...any) {
		if value := readable(fmt.Sprintf(format, a...)); value != "" {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	end := endOf(pipeline.Outcome{End: r.End, Usage: pipeline.Usage{WallMS: float64(r.Finished.Sub(r.Began).Microseconds()) / 1000}})
	fmt.Fprintf(&text, "receipt of run %s in namespace %s\n", r.Run, r.Namespace)
	line("session", "%s", r.Session)
	line("ran", "%s, %s, SHA-256 %s", r.Language, r.Name, r.CodeSHA256)
	line("when", "%s to %s", stamp(r.Began), stamp(r.Finished))
	line("ended", "%s", end)
	line("contained by", "%s (%s, %s)", strings.Join(r.Layers, " "), r.Backend, r.Profile)
	line("layers missing", "%s", strings.Join(r.MissingLayers, " "))
	line("secrets lent", "%s", strings.Join(r.Secrets, " "))
	line("packages", "%s", strings.Join(r.Packages, " "))
	for i, c := range r.Egress {
		if i == maxEntries {
			line("egress", "and %s", count(len(r.Egress)-i+r.EgressUnlisted, "more host"))
			break
		}
		line("egress", "%s, %s", hostOf(egress.Decision{Name: c.Name, Port: c.Port}), map[bool]string{true: "allowed", false: "refused"}[c.Allowed])
	}
	line("stdout", "%d bytes, SHA-256 %s", r.StdoutBytes, r.StdoutSHA256)
	line("stderr", "%d bytes, SHA-256 %s", r.StderrBytes, r.StderrSHA256)
	response.Subject = slices.DeleteFunc(response.Subject, func(s subject) bool { return s.Name == "code:"+r.CodeSHA256 }) // where there are no files
	for i, one := range response.Subject {
		if i == maxEntries {
			line("artifacts", "and %s", count(len(response.Subject)-i+r.ArtifactsUnlisted, "more file"))
			break
		}
		line("artifact", "%s, SHA-256 %s", one.Name, one.Digest.SHA256)
	}
	line("artifacts withheld", "%s", strings.Join(r.ArtifactsWithheld, ", "))
	for _, one := range e.Signatures {
		line("signed by key", "%s", one.KeyID)
	}
	text.WriteString(`"encoding": "raw" returns the signed JSON, which sandboxmcp verify --receipt checks`)
	return text.String(), nil
}

// unsigned says why there is no receipt of a run whose last row is of that kind.
var unsigned = map[string]string{
	"execution.refused":    "it was refused, so nothing ran",
	"execution.lost":       "its server was killed before it had ended",
	event.ExecutionStarted: "it has not ended yet, or broke off",
	event.SessionCreated:   "it is a session, whose runs have one each",
	event.SessionKilled:    "it was a session, whose runs have one each",
}

// lastRow is the newest row about a run; without a number, there is none.
func (s *Server) lastRow(ctx context.Context, id string) (last audit.Row, err error) {
	if s.cfg.Log == nil {
		return last, &pipeline.Error{Stage: pipeline.StageAudit, Denied: true, Reason: "this server can't read an audit log"}
	}
	for row, err := range s.cfg.Log.Rows(ctx, audit.Filter{Run: strings.ToUpper(id), Limit: 1}) {
		if err != nil {
			return last, err
		}
		last = row
	}
	return last, nil
}
