package sessions

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// openTools creates a session with tools, and returns its path.
func (r *rig) openTools() (path string) {
	r.t.Helper()
	status, _, body := r.call("POST", Root, map[string]any{"tools": []any{
		map[string]any{"name": "lookup", "description": "Looks up.", "input_schema": map[string]any{"type": "object",
			"properties": map[string]any{"city": map[string]any{"type": "string"}}}},
		map[string]any{"name": "other", "inputSchema": map[string]any{"type": "object"}},
	}})
	var s described
	if err := json.Unmarshal(body, &s); err != nil || status != http.StatusCreated || len(s.Tools) != 2 {
		r.t.Fatalf("create: %d %s %v", status, body, err)
	}
	return Root + "/" + s.ID
}

// runCode runs code and returns the answer.
func (r *rig) runCode(path, code string) (int, []byte) {
	r.t.Helper()
	status, _, body := r.call("POST", path+"/exec", map[string]any{"tool": codeTool, "input": map[string]string{"code": code}})
	return status, body
}

func paused(t *testing.T, body []byte) (p pause) {
	t.Helper()
	if err := json.Unmarshal(body, &p); err != nil || p.Type != "tool_use" || p.StopReason != "tool_use" || len(p.Content) == 0 {
		t.Fatalf("got %s %v, want a pause", body, err)
	}
	return p
}

func TestTurns(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.openTools()
	_, body := r.runCode(path, "from tools import lookup\na = lookup('Oslo')\nb = lookup(city='Rome')\nprint(a['t'] + b)")
	p := paused(t, body)
	if p.Content[0].Name != "lookup" || string(p.Content[0].Input) != `{"city":"Oslo"}` || p.Content[0].Type != "tool_use" {
		t.Fatalf("waits for %s", body)
	}
	results := path + "/exec/" + p.ExecID + "/results"
	send := func(one map[string]any, headers ...string) (int, []byte) {
		status, _, body := r.call("POST", results, map[string]any{"tool_results": []any{one}}, headers...)
		return status, body
	}
	first := p.Content[0].ID
	if status, body := send(map[string]any{"tool_use_id": "none", "content": 1}); status != http.StatusBadRequest ||
		!strings.Contains(string(body), first) {
		t.Errorf("a result of no call: %d %s", status, body)
	}
	if status, _ := send(map[string]any{"tool_use_id": first, "content": 1}, "X-Who", "bob"); status != http.StatusNotFound {
		t.Errorf("somebody else's result: %d", status)
	}
	_, body = send(map[string]any{"tool_use_id": first, "content": map[string]any{"t": 20}})
	p = paused(t, body)
	status, body := send(map[string]any{"tool_use_id": p.Content[0].ID, "content": 22})
	if status != http.StatusOK || !strings.Contains(string(body), `"stdout":"42\n"`) ||
		!strings.Contains(string(body), `"type":"code_execution_tool_result"`) {
		t.Errorf("the end: %d %s", status, body)
	}
	if status, _ := send(map[string]any{"tool_use_id": "x"}); status != http.StatusNotFound {
		t.Errorf("a result after the end: %d", status)
	}
	// Results may also be text blocks, and errors are raised.
	_, body = r.runCode(path, "from tools import ToolError\ntry: lookup()\nexcept ToolError as e: print(e)\nlookup()")
	p = paused(t, body)
	results = path + "/exec/" + p.ExecID + "/results"
	_, body = send(map[string]any{"tool_use_id": p.Content[0].ID, "is_error": true,
		"content": []any{map[string]any{"type": "text", "text": "no such city"}}})
	p = paused(t, body)
	_, body = send(map[string]any{"tool_use_id": p.Content[0].ID, "content": []any{map[string]any{"type": "text", "text": "a"},
		map[string]any{"type": "text", "text": "b"}}})
	if !strings.Contains(string(body), `no such city\n'ab'`) {
		t.Errorf("text and errors: %s", body)
	}
	// Code without calls, and a shell, are answered as in any session.
	if _, body := r.runCode(path, "1 + 1"); !strings.Contains(string(body), `"stdout":"2\n"`) {
		t.Errorf("code without calls: %s", body)
	}
	if _, _, body := r.call("POST", path+"/exec", map[string]any{"tool": bashTool, "input": map[string]string{"command": "echo hi"}}); !strings.Contains(string(body), `"stdout":"hi\n"`) {
		t.Errorf("a shell: %s", body)
	}
	// The code's time limit continues while it waits.
	_, _, body = r.call("POST", path+"/exec", map[string]any{"tool": codeTool, "timeout_seconds": 0.5, "input": map[string]string{"code": "lookup()"}})
	p = paused(t, body)
	results = path + "/exec/" + p.ExecID + "/results"
	for strings.Contains(string(body), "exec_id") { // repeated, it waits for the same call
		_, _, body = r.call("POST", results, map[string]any{"tool_results": []any{}})
	}
	if !strings.Contains(string(body), codeTime) {
		t.Errorf("time that is up: %s", body)
	}
}

// TestTurnsStreamed: a stream of events carries the calls, and results come in separate requests.
func TestTurnsStreamed(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.openTools()
	q, err := http.NewRequestWithContext(t.Context(), "POST", r.url+path+"/exec",
		strings.NewReader(`{"tool":"code_execution","input":{"code":"import tools\nprint('begun')\nfor n in range(3): print(tools.other(n=n))"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Who": "ann", "Content-Type": "application/json", "Accept": "text/event-stream"} {
		q.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var id, event, stdout, result string
	calls := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if name == "event" {
			event = value
		}
		if name != "data" {
			continue
		}
		var data struct {
			ExecID, ID, Text string
			Exec             string `json:"exec_id"`
			Input            json.RawMessage
		}
		if err := json.Unmarshal([]byte(value), &data); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		switch event {
		case "exec":
			id = data.Exec
		case "stdout":
			stdout += data.Text
		case "tool_use":
			if want := fmt.Sprintf(`{"n":%d}`, calls); string(data.Input) != want {
				t.Errorf("call %d: %s", calls, value)
			}
			calls++
			if status, _, body := r.call("POST", path+"/exec/"+id+"/results", map[string]any{"tool_results": []any{map[string]any{"tool_use_id": data.ID, "content": calls * 10}}}); status != http.StatusNoContent {
				t.Errorf("a result: %d %s", status, body)
			}
		case "result":
			result = value
		}
	}
	if calls != 3 || stdout != "begun\n10\n20\n30\n" || !strings.Contains(result, `"return_code":0`) {
		t.Errorf("%d calls, stdout %q, result %s", calls, stdout, result)
	}
}
