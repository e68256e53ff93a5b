package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

var searchTool = session.Tool{Name: "search", Description: "Searches.",
	Schema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"n":{}}}`)}

// startJob starts code in the background, and returns the run's id.
func startJob(t testing.TB, p *pipeline.Pipeline, s session.Info, code string, secrets ...string) string {
	t.Helper()
	id, _ := run.StartJob(t.Context(), p, run.Request{Where: run.Where{Session: s.ID}, Code: []byte(code), Reach: run.Reach{Secrets: secrets}})
	return id
}

// resume answers calls, and returns the job's next state.
func resume(t testing.TB, p *pipeline.Pipeline, id string, results ...run.ToolResult) run.Job {
	t.Helper()
	j, err := run.Resume(t.Context(), p, "", id, results, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestToolCalls(t *testing.T) {
	p, log, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Capture.Output = true })
	memory.Set("default", "TOKEN", []byte("abc123def456ghi"))
	s := pipelinetest.Open(t, p, session.New{Tools: []session.Tool{searchTool}})
	id := startJob(t, p, s, "import os\nfrom tools import search\nsearch('all of ' + os.environ['TOKEN'], n=[1, None])['hits']", "TOKEN")
	j := resume(t, p, id)
	if len(j.Calls) != 1 || j.Calls[0].Name != "search" || string(j.Calls[0].Arguments) != `{"n":[1,null],"query":"all of ***REDACTED***"}` {
		t.Fatalf("waits for %+v %+v", j.Calls, j.Result)
	}
	call := j.Calls[0].ID
	if called := pipelinetest.Rows(t, log, "session.tool_called"); len(called) != 1 || !strings.HasPrefix(called[0], call) ||
		!strings.Contains(called[0], `"of":"`+id+`"`) {
		t.Errorf("the log has %q before the answer", called)
	}
	if again := resume(t, p, id); len(again.Calls) != 1 || again.Calls[0].ID != call {
		t.Errorf("asked again, it waits for %+v", again.Calls)
	}
	for name, results := range map[string][]run.ToolResult{"an unknown call": {{ID: "none"}}, "a call twice": {{ID: call}, {ID: call}}} {
		if _, err := run.Resume(t.Context(), p, "", id, results, nil); !errors.Is(err, run.ErrNoCall) {
			t.Errorf("a result of %s: %v", name, err)
		}
	}
	if _, err := run.Resume(t.Context(), p, "other", id, []run.ToolResult{{ID: call}}, nil); err == nil {
		t.Error("another namespace answered")
	}
	j = resume(t, p, id, run.ToolResult{ID: call, Value: json.RawMessage(`{"hits":["abc123def456ghi",2]}`)})
	if j.Result == nil || j.Result.Ended != "ok" || j.Result.Value["text/plain"] != "['***REDACTED***', 2]" {
		t.Fatalf("got %+v", j.Result)
	}
	answered := pipelinetest.Rows(t, log, "session.tool_answered")
	if len(answered) != 1 || !strings.Contains(answered[0], `"ended":"ok"`) || !strings.Contains(answered[0], `"answer_bytes":30`) {
		t.Errorf("the log has %q of the answer", answered)
	}
	if all := strings.Join(append(pipelinetest.Rows(t, log, "execution.captured"), answered...), "\n"); strings.Contains(all,
		"abc123def456ghi") || !strings.Contains(all, `REDACTED***\",2]`) {
		t.Errorf("captured: %s", all)
	}
}

func TestToolCallsFail(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	s := pipelinetest.Open(t, p, session.New{Tools: []session.Tool{searchTool}, ToolTimeout: 300 * time.Millisecond})
	caught := "from tools import search, ToolError\ntry: search('x')\nexcept ToolError as e: caught = str(e)\ncaught"
	id := startJob(t, p, s, caught)
	j := resume(t, p, id)
	if j = resume(t, p, id, run.ToolResult{ID: j.Calls[0].ID, Error: "no index"}); j.Result == nil ||
		j.Result.Value["text/plain"] != "'no index'" {
		t.Errorf("an error: %+v", j.Result)
	}
	id = startJob(t, p, s, caught)
	resume(t, p, id)
	hosttest.Until(t, "a call ends when its time is up", func() bool { j, _ := run.JobOf(p, "", id); return j.Result != nil })
	if j, _ := run.JobOf(p, "", id); j.Result.Value["text/plain"] != "'no answer came within 0.3 s'" {
		t.Errorf("a call that nobody answers: %+v", j.Result)
	}
	// A client that can't answer calls gets no promise of it, and no row.
	if res := pipelinetest.Cell(t, p, s.ID, caught, nil); !strings.Contains(res.Value["text/plain"], "client sent can call its tools") {
		t.Errorf("a call of code that nobody follows: %v", res.Value)
	}
	if n := len(pipelinetest.Rows(t, log, "session.tool_called")); n != 2 {
		t.Errorf("%d calls are in the log, want 2", n)
	}
	// The log that fails is a call that is not made.
	log.Fail = func(entries []audit.Entry) error {
		for _, e := range entries {
			if e.Kind == "session.tool_called" {
				return errors.New("disk full")
			}
		}
		return nil
	}
	if j = resume(t, p, startJob(t, p, s, caught)); j.Result == nil || !strings.Contains(j.Result.Value["text/plain"], "disk full") {
		t.Errorf("a call without a row: %+v %+v", j.Calls, j.Result)
	}
}

// TestToolCallsMany: calls that are made at once wait at once, and the end of a session ends them.
func TestToolCallsMany(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	s := pipelinetest.Open(t, p, session.New{Language: "node", Tools: []session.Tool{searchTool}})
	id := startJob(t, p, s, "const { search } = require('tools'); (await Promise.all([1, 2, 3].map((n) => search({ n })))).map((a) => "+
		"a.n).join()")
	j := resume(t, p, id)
	for len(j.Calls) < 3 {
		j = resume(t, p, id)
	}
	var results []run.ToolResult
	for _, c := range j.Calls {
		results = append(results, run.ToolResult{ID: c.ID, Value: c.Arguments})
	}
	if j = resume(t, p, id, results...); j.Result == nil || j.Result.Value["text/plain"] != "'1,2,3'" {
		t.Errorf("got %+v", j.Result)
	}
	id = startJob(t, p, s, "await require('tools').search({})")
	resume(t, p, id)
	ended := make(chan error, 1)
	go func() {
		_, _, err := pipeline.Do(context.Background(), p, session.End{Session: s.ID})
		ended <- err
	}()
	if j = resume(t, p, id); j.Result == nil && len(j.Calls) == 0 {
		t.Errorf("got %+v", j)
	}
	hosttest.Until(t, "the run ends with its session", func() bool { j, _ := run.JobOf(p, "", id); return j.Result != nil })
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if j, _ := run.JobOf(p, "", id); len(j.Calls) != 0 || j.Result.Ended == backends.EndedOK {
		t.Errorf("a run whose session has ended: %+v", j.Result)
	}
}

func TestToolsRefused(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	many := make([]session.Tool, 129)
	for i := range many {
		many[i].Name = fmt.Sprintf("f%d", i)
	}
	for _, c := range []struct {
		why, language string
		tools         []session.Tool
	}{
		{"not shell", "shell", []session.Tool{searchTool}},
		{"129", "python", many},
		{`"class"`, "python", []session.Tool{{Name: "class"}}},
		{`"a-b"`, "python", []session.Tool{{Name: "a-b"}}},
		{`"__doc__"`, "python", []session.Tool{{Name: "__doc__"}}},
		{"two tools", "python", []session.Tool{searchTool, searchTool}},
		{"16384 bytes", "python", []session.Tool{{Name: "a", Description: strings.Repeat("x", 20000)}}},
		{"input_schema", "python", []session.Tool{{Name: "a", Schema: json.RawMessage(`{"type":"array"}`)}}},
		{"input_schema", "python", []session.Tool{{Name: "a", Schema: json.RawMessage(`{"properties":[]}`)}}},
		{"input_schema", "python", []session.Tool{{Name: "a", Schema: json.RawMessage(`7`)}}},
	} {
		_, _, err := pipeline.Do(t.Context(), p, session.New{Language: c.language, Tools: c.tools})
		if e, _ := errors.AsType[*pipeline.Error](err); e == nil || !e.Denied || !strings.Contains(e.Reason, c.why) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}
