package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestTools: code of a session calls functions of the client, which answers by another execute_code.
func TestTools(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	opened := p.tool("create_session", `{"tools":[{"name":"lookup","description":"Looks up.","input_schema":"{\"type\":\"object\",\"properties\":{\"city\":{}}}"},{"name":"other","input_schema":{"type":"object"}}]}`)
	var s struct {
		ID    string   `json:"session_id"`
		Tools []string `json:"tools"`
	}
	if err := json.Unmarshal(opened.Structured, &s); err != nil || len(s.Tools) != 2 {
		t.Fatalf("create_session: %s %v", opened.text, err)
	}
	type facts struct {
		ID    string                                 `json:"request_id"`
		State string                                 `json:"state"`
		All   []struct{ ID, Name, Arguments string } `json:"tool_calls"`
	}
	run := func(arguments string) (f facts, text string) {
		t.Helper()
		got := p.tool("execute_code", arguments)
		checkConforms(t, arguments, schemas["execute_code"], got.Structured)
		if err := json.Unmarshal(got.Structured, &f); err != nil {
			t.Fatal(err)
		}
		return f, got.text
	}
	code := quoted("from tools import lookup, other, ToolError\ntry: lookup('Oslo')\nexcept ToolError as e: print('failed:', " +
		"e)\nprint(other(a=[1])['b'])\nprint(other())")
	f, text := run(fmt.Sprintf(`{"session_id":%q,"code":%s,"secrets":["TEST_SECRET"]}`, s.ID, code))
	if f.State != "waiting" || len(f.All) != 1 || f.All[0].Name != "lookup" || f.All[0].Arguments != `{"city":"Oslo"}` ||
		!strings.Contains(text, f.All[0].ID+": lookup") {
		t.Fatalf("got %+v %s", f, text)
	}
	if state := p.tool("inspect_state", fmt.Sprintf(`{"request_id":%q}`, f.ID)).text; !strings.Contains(state, f.All[0].ID) {
		t.Errorf("inspect_state: %s", state)
	}
	id := f.ID
	for arguments, want := range map[string]string{
		fmt.Sprintf(`{"request_id":%q,"tool_results":[{"tool_use_id":"none","content":"1"}]}`, id): f.All[0].ID,
		`{"tool_results":[{"tool_use_id":"none"}]}`:                                                "request_id",
		fmt.Sprintf(`{"request_id":%q,"code":"1"}`, id):                                            "conflicts with request_id",
		`{"request_id":"none"}`:                                                                    "unknown background run",
	} {
		if text := p.tool("execute_code", arguments).text; !strings.Contains(text, "refused: ") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", arguments, text)
		}
	}
	f, _ = run(fmt.Sprintf(`{"request_id":%q,"tool_results":[{"tool_use_id":%q,"content":"no city","is_error":true}]}`, id, f.All[0].ID))
	f, _ = run(fmt.Sprintf(`{"request_id":%q,"tool_results":[{"tool_use_id":%q,"content":"{\"b\": 42}"}]}`, id, f.All[0].ID))
	f, text = run(fmt.Sprintf(`{"request_id":%q,"tool_results":[{"tool_use_id":%q,"content":{"c":"text"}}]}`, id, f.All[0].ID))
	if f.State != "done" || !strings.Contains(text, "failed: no city\n42\n{'c': 'text'}") {
		t.Errorf("the end: %+v %s", f, text)
	}
	if text := p.tool("create_session", `{"language":"shell","tools":[{"name":"a"}]}`).text; !strings.Contains(text,
		"only Python and Node code") {
		t.Errorf("tools of a shell: %s", text)
	}
}
