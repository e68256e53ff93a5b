package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// callTool carries out a call by the code of a cell.
func (e *execution) callTool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	if e.request.calls == nil {
		return nil, errors.New("only code that the session's client sent can call its tools")
	}
	answer, _, err := pipeline.Do(ctx, e.Pipeline, &toolUse{of: e, call: ToolCall{Name: name, Arguments: arguments}})
	if err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Value, nil
}

// toolUse is the effect of a tool call. The audit log has its row before the client gets the call.
type toolUse struct {
	of   *execution
	call ToolCall
}

func (u *toolUse) Subject() pipeline.Subject {
	return pipeline.Subject{Name: u.call.Name, Namespace: u.of.Outcome.Namespace, Session: u.of.Outcome.Session, Client: u.of.request.Client}
}

// Plan removes secrets from the arguments.
func (u *toolUse) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[ToolResult], error) {
	e := u.of
	r.Leases, r.CurrentLeases = e.Leases, e.CurrentLeases
	r.Outcome.Language, r.Outcome.Backend, r.Outcome.Profile = e.Outcome.Language, e.Outcome.Backend, e.Outcome.Profile
	if !slices.ContainsFunc(e.tools, func(t kernel.Tool) bool { return t.Name == u.call.Name }) {
		return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the session has no tool %.80q", r.Clean(u.call.Name)),
			"call one of its tools")
	}
	u.call.ID, u.call.Arguments = r.Outcome.ID, r.CleanJSON(u.call.Arguments)
	if !json.Valid(u.call.Arguments) || bytes.TrimSpace(u.call.Arguments)[0] != '{' {
		return nil, pipeline.Refuse(pipeline.StageValidate, "the arguments are not a JSON object once secrets are removed",
			"leave out the secrets")
	}
	u.capture(r, "arguments", u.call.Arguments)
	about := pipeline.Facts{"tool": u.call.Name, "session": r.Outcome.Session, "of": e.Outcome.ID}
	sent := pipeline.Facts{"arguments_bytes": len(u.call.Arguments), "arguments_sha256": pipeline.Hash(u.call.Arguments)}
	maps.Copy(sent, about)
	return &pipeline.Change[ToolResult]{Task: pipeline.Task[ToolResult]{Run: r, Stage: pipeline.StageBackend,
		Do: func(ctx context.Context) (ToolResult, error) {
			return u.callClient(ctx, r, about), nil
		}}, RowKind: "session.tool_called", Facts: sent}, nil
}

// callClient waits for the client's answer and adds its row.
func (u *toolUse) callClient(ctx context.Context, r *pipeline.Run, row pipeline.Facts) ToolResult {
	answer, ended := u.answer(ctx)
	row["ended"] = ended
	clean := r.CleanJSON(answer.Value)
	row.AddIf("answer_bytes", len(answer.Value), len(answer.Value))
	row.AddIf("answer_sha256", pipeline.Hash(clean), len(clean))
	row.AddIf("error", answer.Error, len(answer.Error))
	r.AddRow("session.tool_answered", row)
	u.capture(r, "answer", clean)
	return answer
}

// answer returns the client's answer, and how the call ended. The run gives its slots of the queue back while it
// waits.
func (u *toolUse) answer(ctx context.Context) (answer ToolResult, ended string) {
	if err := u.of.seat.waitForClient(ctx); err != nil {
		return ToolResult{Error: err.Error()}, "refused"
	}
	limit := u.of.session.ToolTimeout()
	if limit <= 0 {
		limit = session.DefaultToolTimeout
	}
	timed, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer came within %s s", pipeline.FormatNumber(limit.Seconds())))
	defer cancel()
	answer, err := u.of.request.calls.call(timed, u.call)
	switch ended = "ok"; {
	case err != nil:
		answer.Error, ended = err.Error(), "timeout"
	case answer.Error != "":
		ended = "error"
	}
	if gone := u.of.seat.resume(ctx); gone != nil { // the code has ended, or is ending
		answer, ended = ToolResult{Error: gone.Error()}, "cancelled"
	}
	return answer, ended
}

// capture records the arguments or the answer, without secrets, if the operator wants them in the log.
func (u *toolUse) capture(r *pipeline.Run, field string, clean json.RawMessage) {
	if r.Pipeline.Config.Capture.Output && len(clean) > 0 {
		r.AddRow(pipeline.ExecutionCaptured, pipeline.Facts{"tool": u.call.Name, "of": u.of.Outcome.ID, field: pipeline.CapturedText(clean),
			field + "_bytes": len(clean)})
	}
}
