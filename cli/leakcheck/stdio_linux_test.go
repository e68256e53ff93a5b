package leakcheck

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// agent is an MCP client that collects every line of a server.
type agent struct {
	*bench
	in    io.WriteCloser
	lines *bufio.Reader
	calls int
	from  string // the current encoding
}

// TestStdio repeats TestLeaks with the real command over the Model Context Protocol. Some secrets are in the command's
// environment, the rest in its sealed store.
func TestStdio(t *testing.T) {
	b := newBench(t)
	b.close() // only its secrets and its directory are used
	b.names = b.names[:min(100, len(b.names))]
	for _, dir := range []string{"state", "config/sandboxmcp", "home", "temp"} {
		os.MkdirAll(b.path(dir), 0o700)
	}
	if err := os.WriteFile(b.path("config/sandboxmcp/config.yaml"), []byte("audit:\n  capture: [code, output]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), commandVariable+"=1", "HOME="+b.path("home"), "XDG_STATE_HOME="+b.path("state"),
		"XDG_CONFIG_HOME="+b.path("config"),
		"XDG_RUNTIME_DIR=", "TMPDIR="+b.path("temp"))
	for i, name := range b.names {
		if i%10 > 0 {
			env = append(env, "SANDBOXMCP_SECRET_DEFAULT_"+name+"="+b.secrets[name].value)
			continue
		}
		add := exec.Command(self, "vault", "add", name, "--stdin")
		add.Env, add.Stdin = env, strings.NewReader(b.secrets[name].value)
		out, err := add.CombinedOutput()
		if err != nil {
			t.Fatalf("vault add: %v: %s", err, out)
		}
		b.outcome.append("", "vault add", string(out))
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, "serve", "--structured") // it also ends with its input
	cmd.Env, cmd.Stderr = env, &log
	a := &agent{bench: b}
	if a.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.lines = bufio.NewReader(out)
	a.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}})
	fmt.Fprintln(a.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	all, source := encodings(t)
	var ids []string
	for range 2 {
		s, _ := a.call("create_session", map[string]any{"language": "python"})["session_id"].(string)
		ids = append(ids, s)
	}
	a.call("execute_code", map[string]any{"session_id": ids[0], "code": "kept = set(globals()) | {'kept'}", "secrets": a.names})
	if hosttest.Rounds(0, 1) == 0 {
		all = rendered
	}
	for _, name := range all {
		a.from = name
		a.leakByTools(source, ids)
	}
	for _, id := range ids {
		a.call("terminate_session", map[string]any{"session_id": id})
	}
	a.in.Close()
	rest, _ := io.ReadAll(a.lines)
	b.outcome.append("", "last lines", string(rest))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	b.outcome.append("", "log", log.String())
	b.collectFiles("", "left", b.dir)
	b.reportLeaks()
}

// rendered are encodings that the protocol might alter: it escapes quotes, backslashes, HTML characters and line
// breaks, and it cuts. TestLeaks covers the others.
var rendered = []string{"raw", "base64 folded", "hex 0x", "hex escapes", "json of json", "unicode escapes", "python repr", "html hex",
	"percent twice", "one character a line"}

// request sends a request and returns its result. It collects all messages that arrive meanwhile.
func (a *agent) request(method string, params map[string]any) map[string]any {
	a.Helper()
	a.calls++
	params["_meta"] = map[string]any{"progressToken": a.calls}
	m, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.calls, "method": method, "params": params})
	if err != nil {
		a.Fatal(err)
	}
	fmt.Fprintf(a.in, "%s\n", m)
	for {
		line, err := a.lines.ReadBytes('\n')
		if err != nil {
			a.Fatalf("%s: %v", method, err)
		}
		var answer struct {
			ID     int
			Method string
			Result map[string]any
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			a.Fatalf("%s: %v", line, err)
		}
		where := method
		if name, ok := params["name"].(string); ok {
			where = name
		}
		if answer.Method != "" {
			where = answer.Method
		}
		a.outcome.append(a.from, where, fromJSON(line))
		if answer.ID == a.calls && answer.Method == "" {
			return answer.Result
		}
	}
}

// call calls a tool and returns its structured content, which a refusal has, too.
func (a *agent) call(tool string, arguments map[string]any) map[string]any {
	a.Helper()
	res := a.request("tools/call", map[string]any{"name": tool, "arguments": arguments})
	content, _ := res["structuredContent"].(map[string]any)
	return content
}

// leakByTools leaks the encoding through each tool.
func (a *agent) leakByTools(source string, ids []string) {
	env := map[string]any{"ENCODING": a.from}
	run := a.call("execute_code", map[string]any{"language": "python", "code": source, "secrets": a.names, "env": env})
	id, _ := run["request_id"].(string)
	if run["ended"] != "exit" {
		a.Fatalf("%s: %v", a.from, run)
	}
	for _, key := range []string{"stdout_uri", "stderr_uri"} {
		if uri, ok := run[key].(string); ok {
			a.request("resources/read", map[string]any{"uri": uri})
		}
	}
	a.call("get_artifacts", map[string]any{"request_id": id})
	for _, name := range []string{"content/0.txt", "content/plain.csv", filepath.Join("no", a.secrets[a.names[1]].value[:8])} {
		a.call("get_artifacts", map[string]any{"request_id": id, "name": name})
	}
	a.call("audit_execution", map[string]any{"request_id": id})
	job := a.call("execute_code", map[string]any{"language": "python", "code": source + "\nimport time; time.sleep(0.1)", "secrets": a.names,
		"env": env, "background": true})
	env["HOW"] = "session"
	for _, code := range []string{"for old in set(globals()) - kept: del globals()[old]\n" + source + "\nshow()\nsome(20)",
		"variables(globals())\nfiles()", "fail()"} {
		a.call("execute_code", map[string]any{"session_id": ids[0], "code": code, "env": env})
	}
	a.call("inspect_state", map[string]any{"session_id": ids[0]})
	a.call("bridge_data", map[string]any{"from_session_id": ids[0], "session_id": ids[1], "key": "carried"})
	a.call("execute_code", map[string]any{"session_id": ids[1], "code": "print(carried); carried[:5]"})
	a.call("inspect_state", map[string]any{"session_id": ids[1]})
	a.call("inspect_state", map[string]any{"request_id": job["request_id"]})
	a.call("inspect_state", map[string]any{})
}
