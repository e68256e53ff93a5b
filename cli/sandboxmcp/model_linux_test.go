package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

// model stands in for the models of agents, by HTTPS and for all names. It orders the steps of a script, one for each
// result that it has got, and ends with a text. It speaks the streaming protocols of Anthropic, OpenAI (responses and chat
// completions) and Google as far as agents need them.
type model struct {
	t      *testing.T
	config string // configuration file with which names lead here
	trust  string // file with the authority of its certificates

	mu      sync.Mutex
	steps   []modelStep
	results []string // bodies of requests, which have the results of steps
	keys    []string // credentials
	hosts   []string // names by which requests came
}

// modelStep is a command of a shell, or a file to write.
type modelStep struct{ shell, path, text string }

func newModel(t *testing.T) *model {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.9:443")
	if err != nil {
		hosttest.SkipMissing(t, "port 443", err.Error())
	}
	dir := t.TempDir()
	m := &model{t: t, config: filepath.Join(dir, "config.yaml"), trust: filepath.Join(dir, "authority.pem")}
	authority := tlstest.New(t, "stand-in")
	certificate := func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := authority.Sign(x509.Certificate{DNSNames: []string{hello.ServerName}})
		return &c, nil
	}
	server := &http.Server{Handler: m, TLSConfig: &tls.Config{GetCertificate: certificate}}
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go answerNames(names, func(string) [4]byte { return [4]byte{127, 0, 0, 9} })
	go server.ServeTLS(l, "", "")
	t.Cleanup(func() { server.Close(); names.Close() })
	text := fmt.Sprintf("egress: {resolver: %q, networks: [127.0.0.0/8]}\nagents: {small: {command: [small-agent], allow: "+
		"[api.anthropic.com], secrets: [ANTHROPIC_API_KEY]}}\n", names.LocalAddr())
	for name, text := range map[string]string{m.config: text, m.trust: string(authority.PEM())} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// order sets the script of the next session.
func (m *model) order(steps ...modelStep) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps, m.results, m.keys, m.hosts = steps, nil, nil, nil
}

// seen returns the requests of the session, as one text.
func (m *model) seen() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.results, "\n")
}

// resultPattern finds the results of steps in a request of each protocol.
var resultPattern = lazy.Regexp(`"type":\s?"tool_result"|_call_output"|"role":\s?"tool"|"functionResponse"`)

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	done := len(resultPattern().FindAll(body, -1))
	for _, name := range []string{"X-Api-Key", "Authorization", "X-Goog-Api-Key"} {
		if key := strings.TrimPrefix(r.Header.Get(name), "Bearer "); key != "" {
			m.keys = append(m.keys, key)
		}
	}
	m.results, m.hosts = append(m.results, string(body)), append(m.hosts, r.Host)
	var step modelStep
	if done < len(m.steps) {
		step = m.steps[done]
	}
	m.mu.Unlock()
	var q struct {
		Model string
		Tools json.RawMessage
	}
	_ = json.Unmarshal(body, &q)
	tool, input := chooseTool(q.Tools, step)
	w.Header().Set("Content-Type", "text/event-stream")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/v1/messages"):
		writeAnthropic(w, q.Model, done, tool, input)
	case strings.HasSuffix(path, "/responses"):
		writeResponses(w, done, tool, input)
	case strings.HasSuffix(path, "/chat/completions"):
		writeCompletions(w, q.Model, done, tool, input)
	case strings.Contains(path, "enerateContent"):
		writeGoogle(w, strings.Contains(path, "stream"), tool, input)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "{}")
	}
}

// chooseTool returns the tool of an agent that performs a step, and its input; "" if it has none, or there is no step.
func chooseTool(tools json.RawMessage, step modelStep) (tool string, input object) {
	path := "/workspace/" + step.path
	for _, choice := range []struct {
		name  string
		write bool
		input object
	}{
		{"Bash", false, object{"command": step.shell, "description": "step"}},
		{"exec_command", false, object{"cmd": step.shell}},
		{"bash", false, object{"command": step.shell, "description": "step"}},
		{"run_shell_command", false, object{"command": step.shell}},
		{"run_commands", false, object{"commands": []string{step.shell}}},
		{"Write", true, object{"file_path": path, "content": step.text}},
		{"write", true, object{"filePath": path, "content": step.text}},
		{"write_file", true, object{"file_path": path, "content": step.text}},
		{"create", true, object{"path": path, "file_text": step.text}},
		{"editor", true, object{"command": "create", "path": path, "file_text": step.text, "new_text": step.text}},
		// with its models, Codex edits by patches
		{"exec_command", true, object{"cmd": "printf %s '" + step.text + "' >" + path}},
		{"bash", true, object{"command": "printf %s '" + step.text + "' >" + path, "description": "step"}}, // and so does opencode
	} {
		if has := bytes.Contains(tools, []byte(`"name":"`+choice.name+`"`)); has && choice.write == (step.path != "") && step != (modelStep{}) {
			return choice.name, choice.input
		}
	}
	return "", nil
}

func writeEvent(w io.Writer, v object) {
	if name, ok := v["type"].(string); ok {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	b, _ := json.Marshal(v)
	fmt.Fprintf(w, "data: %s\n\n", b)
}

func writeAnthropic(w io.Writer, name string, done int, tool string, input object) {
	block, delta, stop := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": lastText}, "end_turn"
	if tool != "" {
		b, _ := json.Marshal(input)
		block = object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", done), "name": tool, "input": object{}}
		delta, stop = object{"type": "input_json_delta", "partial_json": string(b)}, "tool_use"
	}
	usage := object{"input_tokens": 1, "output_tokens": 1}
	writeEvent(w, object{"type": "message_start", "message": object{"id": "msg", "type": "message", "role": "assistant", "model": name,
		"content": []any{}, "usage": usage}})
	writeEvent(w, object{"type": "content_block_start", "index": 0, "content_block": block})
	writeEvent(w, object{"type": "content_block_delta", "index": 0, "delta": delta})
	writeEvent(w, object{"type": "content_block_stop", "index": 0})
	writeEvent(w, object{"type": "message_delta", "delta": object{"stop_reason": stop}, "usage": usage})
	writeEvent(w, object{"type": "message_stop"})
}

func writeResponses(w io.Writer, done int, tool string, input object) {
	item := object{"type": "message", "role": "assistant", "id": "msg",
		"content": []any{object{"type": "output_text", "text": lastText, "annotations": []any{}}}}
	if tool != "" {
		b, _ := json.Marshal(input)
		item = object{"type": "function_call", "id": fmt.Sprintf("fc_%d", done), "call_id": fmt.Sprintf("call_%d", done), "name": tool,
			"arguments": string(b), "status": "completed"}
	}
	none := object{"cached_tokens": 0, "reasoning_tokens": 0}
	usage := object{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": none, "output_tokens_details": none}
	writeEvent(w, object{"type": "response.created", "response": object{"id": "resp", "created_at": 1, "model": "gpt-5"}})
	begun := maps.Clone(item)
	if tool != "" {
		begun["arguments"] = ""
	} else {
		begun["content"] = []any{}
	}
	writeEvent(w, object{"type": "response.output_item.added", "output_index": 0, "item": begun})
	if tool == "" {
		writeEvent(w, object{"type": "response.output_text.delta", "item_id": "msg", "output_index": 0, "content_index": 0, "delta": lastText})
	}
	writeEvent(w, object{"type": "response.output_item.done", "output_index": 0, "item": item})
	writeEvent(w, object{"type": "response.completed", "response": object{"id": "resp", "output": []any{item}, "usage": usage}})
}

func writeCompletions(w io.Writer, name string, done int, tool string, input object) {
	delta, finish := object{"role": "assistant", "content": lastText}, "stop"
	if tool != "" {
		b, _ := json.Marshal(input)
		call := object{"index": 0, "id": fmt.Sprintf("call_%d", done), "type": "function",
			"function": object{"name": tool, "arguments": string(b)}}
		delta, finish = object{"role": "assistant", "tool_calls": []any{call}}, "tool_calls"
	}
	for _, choice := range []object{{"index": 0, "delta": delta}, {"index": 0, "delta": object{}, "finish_reason": finish}} {
		writeEvent(w, object{"id": "c", "object": "chat.completion.chunk", "model": name, "choices": []any{choice}})
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

func writeGoogle(w io.Writer, streams bool, tool string, input object) {
	part := object{"text": lastText}
	if tool != "" {
		part = object{"functionCall": object{"name": tool, "args": input}}
	}
	answer := object{"candidates": []any{object{"index": 0, "content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
	if streams {
		writeEvent(w, answer)
		return
	}
	json.NewEncoder(w).Encode(answer)
}

// uniqueOf returns the sorted different texts of a list.
func uniqueOf(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}
