package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// toolUse is a call of the client's function by code, in the format of Anthropic's API.
type toolUse struct {
	Type  string          `json:"type"` // "tool_use"
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// pause is the answer to code that waits for results.
type pause struct {
	Type       string    `json:"type"` // "tool_use"
	ExecID     string    `json:"exec_id"`
	StopReason string    `json:"stop_reason"` // "tool_use"
	Content    []toolUse `json:"content"`
}

func usesOf(calls []run.ToolCall) []toolUse {
	uses := []toolUse{}
	for _, c := range calls {
		uses = append(uses, toolUse{"tool_use", c.ID, c.Name, c.Arguments})
	}
	return uses
}

// toolResult is the result of a call. Its content is any JSON; a list of text blocks, as in Anthropic's API, is
// joined into one text.
type toolResult struct {
	ID      string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
	IsError bool            `json:"is_error"`
}

func (r toolResult) result() run.ToolResult {
	value := r.Content
	if text, is := textOf(value); is {
		value, _ = json.Marshal(text)
	}
	return run.NewToolResult(r.ID, value, r.IsError)
}

// textOf returns the text of a list of text blocks.
func textOf(content json.RawMessage) (text string, is bool) {
	var blocks []struct{ Type, Text string }
	if json.Unmarshal(content, &blocks) != nil || len(blocks) == 0 {
		return "", false
	}
	for _, b := range blocks {
		if b.Type != "text" {
			return "", false
		}
		text += b.Text
	}
	return text, true
}

// exec is code with access to the client's functions, running in the background.
type exec struct {
	call    call
	streams bool // a stream sends its calls and its result
}

// maxExecs bounds the executions of a session without a fetched result.
const maxExecs = 32

// runWithTools runs code with access to the client's functions, until it waits for results, which [Server.results]
// delivers, or ends. A stream gets both. The code ends if the client disconnects while it is waited for.
func (s *Server) runWithTools(r *http.Request, st *state, c call, q run.Request, out events) (any, error) {
	id, done := run.StartJob(r.Context(), s.cfg.Pipeline, q)
	s.mu.Lock()
	for old := range st.execs { // finished without a fetched result
		if j, known := run.JobOf(s.cfg.Pipeline, st.namespace, old); !known || j.Result != nil && len(st.execs) > maxExecs {
			delete(st.execs, old)
		}
	}
	st.execs[id] = &exec{c, out.stream != nil}
	s.mu.Unlock()
	if out.stream == nil {
		return s.resume(r.Context(), st, id, c, nil)
	}
	defer s.forgetExec(st, id)
	out.send("exec", map[string]string{"type": "exec", "exec_id": id})
	sent := map[string]bool{}
	for {
		j, err := run.Resume(r.Context(), s.cfg.Pipeline, st.namespace, id, nil, func(c run.ToolCall) bool { return sent[c.ID] })
		if err != nil {
			run.CancelJob(s.cfg.Pipeline, st.namespace, id)
			<-done
			return nil, err
		}
		if j.Result != nil {
			return s.resultOfJob(c, *j.Result)
		}
		for _, use := range usesOf(slices.DeleteFunc(j.Calls, func(c run.ToolCall) bool { return sent[c.ID] })) {
			sent[use.ID] = true
			out.send("tool_use", use)
		}
	}
}

// resume waits for the next calls of code, or for its end.
func (s *Server) resume(ctx context.Context, st *state, id string, c call, results []run.ToolResult) (any, error) {
	j, err := run.Resume(ctx, s.cfg.Pipeline, st.namespace, id, results, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		run.CancelJob(s.cfg.Pipeline, st.namespace, id)
		return nil, err
	case err != nil:
		return nil, err
	case j.Result == nil:
		return pause{"tool_use", id, "tool_use", usesOf(j.Calls)}, nil
	}
	s.forgetExec(st, id)
	return s.resultOfJob(c, *j.Result)
}

func (s *Server) forgetExec(st *state, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(st.execs, id)
}

// resultOfJob returns the content for code that has run in the background.
func (s *Server) resultOfJob(c call, res pipeline.Outcome) (any, error) {
	if res.Refused != nil {
		return notRun(c.Tool, res.Refused)
	}
	return resultOf(c.Tool, res), nil
}

// results delivers the results of calls. If the code's output is streamed, the stream continues.
func (s *Server) results(w http.ResponseWriter, r *http.Request, st *state) error {
	var body struct {
		Results []toolResult `json:"tool_results"`
	}
	if err := decode(r, &body); err != nil {
		return err
	}
	id := r.PathValue("exec")
	s.mu.Lock()
	e := st.execs[id]
	s.mu.Unlock()
	if e == nil {
		return door.Refuse(http.StatusNotFound, "execution not found, or ended")
	}
	var results []run.ToolResult
	for _, one := range body.Results {
		results = append(results, one.result())
	}
	if e.streams {
		if _, err := run.Resume(cancelled(r.Context()), s.cfg.Pipeline, st.namespace, id, results, nil); err != nil &&
			!errors.Is(err, errAnswered) {
			return err
		}
		return door.Reply(w, http.StatusNoContent, nil)
	}
	next, err := s.resume(r.Context(), st, id, e.call, results)
	return events{w: w}.sendResult(e.call, next, err)
}

// errAnswered ends a wait whose calls another request sends.
var errAnswered = errors.New("the results are delivered")

// cancelled returns a cancelled context, for delivering without waiting.
func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errAnswered)
	return ctx
}

// newTool is a tool in a request for a session. The field names of MCP are accepted, too.
type newTool struct {
	session.Tool
	InputSchema json.RawMessage `json:"inputSchema"`
}

func toolsOf(all []newTool) (tools []session.Tool) {
	for _, t := range all {
		if t.Schema == nil {
			t.Schema = t.InputSchema
		}
		tools = append(tools, t.Tool)
	}
	return tools
}
