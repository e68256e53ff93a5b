package sessions

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// The tools.
const (
	codeTool   = "code_execution"
	bashTool   = "bash_code_execution"
	editorTool = "text_editor_code_execution"
)

// call is the body of a request to run a tool.
type call struct {
	Tool    string          `json:"tool"`
	Input   json.RawMessage `json:"input"`
	Timeout float64         `json:"timeout_seconds"` // 0 is the operator's default
	UseID   string          `json:"tool_use_id"`     // "" generates one
	Secrets []string        `json:"secrets"`         // names of the operator's secrets, for environment variables of the code

	Background bool `json:"background"` // answers at once, with a job
}

// block is a tool's result block, whose content is one object.
type block struct {
	Type    string `json:"type"`
	UseID   string `json:"tool_use_id"`
	Content any    `json:"content"`
}

// ranContent is the content of a block about code.
type ranContent struct {
	Type       string   `json:"type"`
	Stdout     string   `json:"stdout"`
	Stderr     string   `json:"stderr"`
	ReturnCode int      `json:"return_code"`
	Content    []output `json:"content"`
}

// output is a file that code has written.
type output struct {
	Type   string `json:"type"`
	FileID string `json:"file_id"`
	Path   string `json:"path"`
}

// failedContent is the content of a block about a failure.
type failedContent struct {
	Type    string `json:"type"`
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

// The codes of failures.
const (
	codeInput   = "invalid_tool_input"
	codeTime    = "execution_time_exceeded"
	codeNone    = "unavailable"
	codeMissing = "file_not_found"
	codeNoMatch = "string_not_found"
	codeMatches = "multiple_matches"
)

// block returns the result block with a content.
func (c call) block(content any) block { return block{c.Tool + "_tool_result", c.UseID, content} }

func failure(tool, code, message string) failedContent {
	return failedContent{tool + "_tool_result_error", code, message}
}

// exec runs a tool in a session. A failure of the tool is in its block, with status 200; only a request that can't be
// tried is an error.
func (s *Server) exec(w http.ResponseWriter, r *http.Request, st *state) error {
	var c call
	if err := decode(r, &c); err != nil {
		return err
	}
	switch {
	case c.Tool != codeTool && c.Tool != bashTool && c.Tool != editorTool:
		return door.Refuse(http.StatusBadRequest, "tool must be "+codeTool+", "+bashTool+" or "+editorTool)
	case !(c.Timeout >= 0 && c.Timeout <= 1e6):
		return door.Refuse(http.StatusBadRequest, "timeout_seconds must be 0 or more")
	case c.Tool == editorTool && len(c.Secrets) > 0:
		return door.Refuse(http.StatusBadRequest, "the editor does not accept secrets")
	}
	c.UseID = cmp.Or(c.UseID, "srvtoolu_"+rand.Text())
	if c.Background {
		return s.execInBackground(w, r, st, c)
	}
	if err := s.cfg.Pipeline.CheckRecordable(); err != nil {
		return err
	}
	out := newEvents(w, r)
	defer out.close()
	content, err := any(nil), error(nil)
	if c.Tool == editorTool {
		content, err = s.edit(r, st, c)
	} else {
		content, err = s.runCode(r, st, c, out)
	}
	return out.sendResult(c, content, err)
}

// execInBackground starts code in the background, or answers with the reason for refusing it.
func (s *Server) execInBackground(w http.ResponseWriter, r *http.Request, st *state, c call) error {
	if c.Tool == editorTool {
		return door.Refuse(http.StatusBadRequest, "the editor does not run in the background: omit background")
	}
	q, content, err := s.runRequest(r, st, c)
	switch {
	case err != nil:
		return err
	case content != nil:
		return door.Reply(w, http.StatusOK, c.block(content))
	}
	return s.startJob(w, r, st, c, q)
}

// runCode runs code in the session's interpreter or its shell.
func (s *Server) runCode(r *http.Request, st *state, c call, out events) (any, error) {
	q, content, err := s.runRequest(r, st, c)
	if err != nil || content != nil {
		return content, err
	}
	if out.stream != nil {
		q.Stdout, q.Stderr = &textWriter{to: out, name: "stdout"}, &textWriter{to: out, name: "stderr"}
		q.Display = func(b kernel.Bundle) { out.send("display", map[string]any{"type": "display", "data": b}) }
	}
	if info, err := session.InfoOf(s.cfg.Pipeline, st.namespace, q.Session); err == nil && len(info.Tools) > 0 && q.Context == "" {
		return s.runWithTools(r, st, c, q, out)
	}
	_, res, err := pipeline.Do(r.Context(), s.cfg.Pipeline, q)
	if err != nil {
		return notRun(c.Tool, err)
	}
	return resultOf(c.Tool, res), nil
}

// resultOf returns the content for code that ran.
func resultOf(tool string, res pipeline.Outcome) any {
	if res.Ended == "timeout" {
		return failure(tool, codeTime, "the code was interrupted at its time limit")
	}
	return ranOf(tool, res)
}

// runRequest returns the run that a call asks for, or the content that describes an invalid call.
func (s *Server) runRequest(r *http.Request, st *state, c call) (q run.Request, wrong any, err error) {
	var input struct{ Code, Command string }
	if err := json.Unmarshal(c.Input, &input); err != nil {
		return q, failure(c.Tool, codeInput, "input must be an object: "+err.Error()), nil
	}
	id := r.PathValue("id")
	q = run.Request{Namespace: st.namespace, Where: run.Where{Session: id}, Code: []byte(input.Code), Reach: run.Reach{Secrets: c.Secrets},
		Show: true}
	if c.Tool == bashTool {
		q.Code, q.Language = []byte(input.Command), validate.Shell
		info, err := session.InfoOf(s.cfg.Pipeline, st.namespace, id)
		if err != nil {
			return q, nil, err
		}
		if info.Language != validate.Shell {
			if q.Context = shellContext; s.startShell(r, st) != nil {
				return q, failure(c.Tool, codeNone, "can't start the session's shell"), nil
			}
		}
	}
	if len(q.Code) == 0 {
		return q, failure(c.Tool, codeInput, "input needs code, or for "+bashTool+" a command"), nil
	}
	q.Limits.Wall = seconds(c.Timeout)
	return q, nil, nil
}

// shellContext is the id of a session's shell.
const shellContext = "bash"

// startShell starts the session's shell, once.
func (s *Server) startShell(r *http.Request, st *state) error {
	st.shell.Lock()
	defer st.shell.Unlock()
	if st.hasShell {
		return nil
	}
	_, _, err := pipeline.Do(r.Context(), s.cfg.Pipeline, session.NewContext{
		Namespace: st.namespace, Session: r.PathValue("id"), ID: shellContext, Language: validate.Shell,
	})
	st.hasShell = err == nil
	return err
}

// notRun returns the content for code that did not run: a refusal by policy is a failure of the tool, invalid code is
// a result.
func notRun(tool string, err error) (any, error) {
	e, _ := errors.AsType[*pipeline.Error](err)
	switch {
	case errors.Is(err, session.ErrDead), errors.Is(err, session.ErrUnknown), errors.Is(err, pipeline.ErrBusy),
		errors.As(err, new(*pipeline.UnrecordedError)):
		return nil, err
	case errors.As(err, new(*validate.Error)):
		return ranContent{tool + "_result", "", err.Error() + "\n", 1, []output{}}, nil
	case e != nil && e.Denied:
		return failure(tool, codeInput, err.Error()), nil
	}
	return nil, err
}

// ranOf returns the content of a result block for code that ran.
func ranOf(tool string, res pipeline.Outcome) ranContent {
	stdout, stderr := res.Stdout, res.Stderr
	line := func(to *string, text string) {
		if text == "" {
			return
		}
		if *to != "" && !strings.HasSuffix(*to, "\n") {
			*to += "\n"
		}
		*to += strings.TrimSuffix(text, "\n") + "\n"
	}
	for _, b := range append(res.Displays, res.Value) {
		line(&stdout, b["text/plain"])
	}
	if res.Error != nil {
		line(&stderr, cmp.Or(res.Error.Traceback, res.Error.Error()))
	}
	line(&stderr, res.StateLost)
	c := ranContent{tool + "_result", stdout, stderr, res.ExitCode, []output{}}
	for _, a := range res.Artifacts {
		if a.Withheld == "" {
			c.Content = append(c.Content, output{tool + "_output", fileID(a.Name), a.Name})
		}
	}
	return c
}

// fileID returns the id of a file in a session's workspace: an encoding of its name.
func fileID(name string) string {
	return "file_" + base64.RawURLEncoding.EncodeToString([]byte(name))
}

func nameOf(id string) (name string, ok bool) {
	text, found := strings.CutPrefix(id, "file_")
	b, err := base64.RawURLEncoding.DecodeString(text)
	return string(b), found && err == nil
}

// events answers a call: at its end or, on request, with its output as it comes.
type events struct {
	w      http.ResponseWriter
	stream *door.Stream // server-sent events; nil answers at the end
}

func newEvents(w http.ResponseWriter, r *http.Request) events {
	if !door.WantsEvents(r) {
		return events{w: w}
	}
	e := events{w, door.BeginEvents(w)}
	e.stream.Send([]byte(": begun\n\n"))
	return e
}

func (e events) close() {
	if e.stream != nil {
		e.stream.Close()
	}
}

func (e events) send(event string, data any) { _ = e.stream.SendEvent(event, data) } // the request's context ends if the client is gone

// sendResult answers with the content of a tool's block, or with the calls that its code waits for. Errors it sends
// only in a stream.
func (e events) sendResult(c call, content any, err error) error {
	name, answer := "result", content
	if _, waits := content.(pause); !waits {
		answer = c.block(content)
	}
	switch {
	case e.stream == nil && err != nil:
		return err
	case e.stream == nil:
		return door.Reply(e.w, http.StatusOK, answer)
	case err != nil:
		name, answer = "error", faultOf(explain(err))
	}
	e.send(name, answer)
	return nil
}

// textWriter sends output in complete characters.
type textWriter struct {
	to   events
	name string
	held []byte
}

func (t *textWriter) Write(p []byte) (int, error) {
	t.held = append(t.held, p...)
	if whole := len(t.held) - safetext.UnfinishedRune(t.held); whole > 0 {
		t.to.send(t.name, map[string]string{"type": t.name, "text": string(bytes.ToValidUTF8(t.held[:whole], []byte("\uFFFD")))})
		t.held = append(t.held[:0], t.held[whole:]...)
	}
	return len(p), nil
}
