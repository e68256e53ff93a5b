package e2b

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// execution is the body of a request to run code.
type execution struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env_vars"`
}

// execute runs code in a context and streams its results as lines of JSON. If the client disconnects, the code is
// interrupted.
func (s *Server) execute(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	var q execution
	if err := decodeAtMost(r, &q, maxCode); err != nil {
		return err
	}
	language, known := s.language(q.Language)
	switch {
	case q.Context != "" && q.Language != "":
		return door.Refuse(http.StatusBadRequest, "only one of context_id or language can be provided")
	case !known:
		return door.Refuse(http.StatusBadRequest, "unknown language "+clip(q.Language)+": use python, javascript, typescript, bash or r")
	}
	c := b.contextOf(q.Context)
	if q.Context == "" {
		c = b.contextFor(language)
	}
	if c == nil {
		return noContext(q.Context)
	}
	if err := s.cfg.Pipeline.CheckRecordable(); err != nil {
		return err
	}
	if err := s.startContext(r, b, c); err != nil {
		return err
	}
	c.mu.Lock()
	c.runs++
	runs := c.runs
	c.mu.Unlock()
	out := door.BeginStream(w, "application/x-ndjson", `{"type":"keepalive"}`+"\n", door.Heartbeat, func() {})
	defer out.Close()
	out.SendLine(map[string]any{"type": "number_of_executions", "execution_count": runs})
	cell := s.buildRequest(b, c, q, out)
	_, res, err := pipeline.Do(r.Context(), s.cfg.Pipeline, cell)
	for _, w := range []io.Writer{cell.Stdout, cell.Stderr} {
		w.(*stream).flush()
	}
	if errors.Is(err, session.ErrDead) || !s.hasSession(b) {
		panic(http.ErrAbortHandler) // a broken connection tells the SDK that the sandbox has ended
	}
	sendResult(out, res, err)
	return nil
}

// buildRequest returns the pipeline's request to run code in a context.
func (s *Server) buildRequest(b *Sandbox, c *codeContext, q execution, out *door.Stream) run.Request {
	language := kernelOf(c.Language)
	if c.Language == "typescript" {
		language = c.Language
	}
	code := q.Code
	if language == "python" {
		code = dedent(code)
	}
	p := run.Request{Namespace: b.Namespace, Where: run.Where{Session: b.session(), Context: c.ID}, Language: language, Code: []byte(code),
		Show: true, Client: "E2B SDK",
		Env: environment(q.Env), EnvOnce: true, Streams: run.Streams{Charts: true, Whole: true}}
	p.Stdout, p.Stderr = &stream{to: out, kind: "stdout"}, &stream{to: out, kind: "stderr"}
	p.Display = func(b kernel.Bundle) { out.SendLine(resultOf(b, false)) }
	p.Limits.Wall = s.cfg.Wall
	return p
}

// dedent removes the indentation of the first line from all lines that have it, as notebooks do.
func dedent(code string) string {
	all := strings.Split(code, "\n")
	for _, line := range all {
		trimmed := strings.TrimLeft(line, " \t")
		if trimmed == "" {
			continue
		}
		indent := line[:len(line)-len(trimmed)]
		for i := range all {
			all[i] = strings.TrimPrefix(all[i], indent)
		}
		break
	}
	return strings.Join(all, "\n")
}

// sendResult sends the result of the code, and the final events.
func sendResult(out *door.Stream, res pipeline.Outcome, err error) {
	if res.Value != nil {
		out.SendLine(resultOf(res.Value, true))
	}
	if name, value, trace := failure(res, err); name != "" {
		out.SendLine(map[string]any{"type": "error", "name": name, "value": value, "traceback": trace})
	}
	out.SendLine(map[string]any{"type": "end_of_execution"})
}

// failure returns the error that ended the code or kept it from running; name "" is none.
func failure(res pipeline.Outcome, err error) (name, value, trace string) {
	switch {
	case err != nil:
		return "ExecutionRefused", pipeline.PublicText(err), ""
	case res.Error != nil:
		return res.Error.Type, res.Error.Message, res.Error.Traceback
	case res.Ended == "timeout":
		return "TimeoutError", "the code was interrupted at its time limit", ""
	case res.StateLost != "":
		return "InterpreterLost", res.StateLost, ""
	case res.ExitCode != 0 && res.Language == "python":
		return "SystemExit", res.Signal, ""
	}
	return "", "", ""
}

// forms are E2B's names for MIME types.
var forms = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg",
	"application/pdf": "pdf", "text/latex": "latex", "application/json": "json", "application/javascript": "javascript",
	"e2b/chart": "chart", "e2b/data": "data",
}

// resultOf returns a value in the SDKs' format. main marks the value of the last expression.
func resultOf(b kernel.Bundle, main bool) map[string]any {
	result, extra := map[string]any{"type": "result", "is_main_result": main}, map[string]any{}
	for kind, text := range b {
		form, known := forms[kind]
		switch {
		case !known:
			extra[kind] = text
		case form == "chart" || form == "data" || form == "json":
			if json.Valid([]byte(text)) {
				result[form] = json.RawMessage(text)
			}
		case form == "text":
			result[form] = unquoted(text)
		default:
			result[form] = text
		}
	}
	if len(extra) > 0 {
		result["extra"] = extra
	}
	return result
}

// unquoted returns text without the quotes of a string's repr.
func unquoted(text string) string {
	if n := len(text); n > 1 && text[0] == text[n-1] && (text[0] == '\'' || text[0] == '"') {
		return text[1 : n-1]
	}
	return text
}

// lineTime is how long the beginning of a line waits for the rest: a program may write a line in several pieces.
const lineTime = 20 * time.Millisecond

// stream sends output by lines. After lineTime it sends an unfinished line, up to its last complete character.
type stream struct {
	to   *door.Stream
	kind string

	mu   sync.Mutex
	held []byte
	late *time.Timer // nil if nothing waits
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, p...)
	s.send(bytes.LastIndexByte(s.held, '\n') + 1)
	if len(s.held) > 0 && s.late == nil {
		s.late = time.AfterFunc(lineTime, s.sendLate)
	}
	return len(p), nil
}

// sendLate sends the complete characters of an unfinished line.
func (s *stream) sendLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = nil
	s.send(len(s.held) - safetext.UnfinishedRune(s.held))
}

// flush sends all buffered bytes, including an incomplete character.
func (s *stream) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(len(s.held))
}

// send sends the first n buffered bytes. The caller holds mu.
func (s *stream) send(n int) {
	if n == 0 {
		return
	}
	s.to.SendLine(map[string]any{"type": s.kind, "text": string(s.held[:n]), "timestamp": time.Now().UTC().Format(time.RFC3339Nano)})
	s.held = append(s.held[:0], s.held[n:]...)
}
