package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// agent is an MCP client of a server process.
type agent struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	calls int
}

// command returns a command of sandboxmcp with that home. It does not inherit ignored signals, as under nohup.
func command(ctx context.Context, t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("sandboxmcp") // testscript.Main puts the test binary there
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(home, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	handleSignals(t)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home+"/tmp", "XDG_STATE_HOME="+home+"/state", "XDG_CONFIG_HOME="+home+"/config",
		"XDG_RUNTIME_DIR=")
	return cmd
}

// handleSignals handles the signals that may be ignored here: children would inherit that.
func handleSignals(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(caught) })
}

func startServer(t *testing.T, home string) *agent {
	t.Helper()
	a := &agent{t: t, cmd: command(t.Context(), t, home, "serve", "--structured")}
	a.cmd.Stderr = os.Stderr
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.lines = bufio.NewReader(out)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.cmd.Process.Kill()
		a.cmd.Wait()
	})
	a.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}})
	fmt.Fprintln(a.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

// request sends a request and returns its result.
func (a *agent) request(method string, params any) map[string]any {
	a.t.Helper()
	a.send(method, params)
	for {
		line, err := a.lines.ReadBytes('\n')
		if err != nil {
			a.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID     int
			Result map[string]any
		}
		if err := json.Unmarshal(line, &m); err != nil {
			a.t.Fatalf("%s: %v", line, err)
		}
		if m.ID == a.calls {
			return m.Result
		}
	}
}

func (a *agent) send(method string, params any) {
	a.t.Helper()
	a.calls++
	m, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.calls, "method": method, "params": params})
	if err != nil {
		a.t.Fatal(err)
	}
	fmt.Fprintf(a.in, "%s\n", m)
}

// call calls a tool and returns its structured content.
func (a *agent) call(tool string, arguments map[string]any) map[string]any {
	a.t.Helper()
	res := a.request("tools/call", map[string]any{"name": tool, "arguments": arguments})
	content, _ := res["structuredContent"].(map[string]any)
	if content == nil || res["isError"] == true {
		a.t.Fatalf("%s: %v", tool, res)
	}
	return content
}

// TestServerEnds ends servers in all ways during sessions, jobs and calls. Nothing of them is left, the log is intact,
// and the control socket of a dead server is harmless.
func TestServerEnds(t *testing.T) {
	requireFeatures(t, "sandbox", "bash", "python")
	home := t.TempDir()
	for name, end := range map[string]func(a *agent){
		"end of input": func(a *agent) { a.in.Close() },
		"SIGTERM":      func(a *agent) { a.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":       func(a *agent) { a.cmd.Process.Signal(syscall.SIGINT) },
		"SIGHUP":       func(a *agent) { a.cmd.Process.Signal(syscall.SIGHUP) },
		"SIGKILL":      func(a *agent) { a.cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			marker := "marker-" + strings.ReplaceAll(name, " ", "-") + filepath.Base(home) + fmt.Sprint(os.Getpid())
			a := startServer(t, home)
			python := a.call("create_session", map[string]any{"language": "python"})["session_id"]
			a.call("execute_code", map[string]any{"session_id": python,
				"code": fmt.Sprintf("import subprocess; p = subprocess.Popen(['bash', '-c', 'exec -a %s sleep 1000'], start_new_session=True)",
					marker)})
			shell := a.call("create_session", map[string]any{"language": "shell"})["session_id"]
			a.call("execute_code", map[string]any{"session_id": shell, "code": "(exec -a " + marker + " sleep 1000) >/dev/null 2>&1 &"})
			a.call("execute_code", map[string]any{"language": "shell", "code": "exec -a " + marker + " sleep 1000", "background": true})
			a.send("tools/call", map[string]any{"name": "execute_code", "arguments": map[string]any{"language": "shell",
				"code": "exec -a " + marker + " sleep 1000"}})
			hosttest.Until(t, "four programs run", func() bool { return len(commandLines(marker)) == 4 })
			end(a)
			io.Copy(io.Discard, a.lines)
			if err := a.cmd.Wait(); err != nil && name != "SIGKILL" {
				t.Errorf("ended with %v", err)
			}
			hosttest.Until(t, "no program is left", func() bool { return len(commandLines(marker)) == 0 })
		})
	}
	a := startServer(t, home) // it also removes leftovers
	if n := a.call("sandbox_stats", nil); n == nil {
		t.Error("no answer")
	}
	a.in.Close()
	a.cmd.Wait()
	if left := leftovers(t, home); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	sockets, _ := filepath.Glob(home + "/state/sandboxmcp/run/sandboxmcp/*.sock")
	if len(sockets) > 1 { // a search for servers removes the killed one's
		t.Errorf("sockets are left: %q", sockets)
	}
	dirs, _ := filepath.Glob(home + "/state/sandboxmcp/packages/sessions/*")
	if len(dirs) > 0 {
		t.Errorf("directories of sessions are left: %q", dirs)
	}
	log, err := audit.Open(t.Context(), home+"/state/sandboxmcp/sandboxmcp.db")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if report, err := log.Verify(t.Context(), audit.VerifyOptions{}); err != nil || report.Bad != nil {
		t.Errorf("the log is not whole: %v, %+v", err, report.Bad)
	}
}

// TestTypedAsPrinted types the commands that an agent's messages suggest: each allows exactly the requested access.
func TestTypedAsPrinted(t *testing.T) {
	requireFeatures(t, "bash")
	home := t.TempDir()
	config := filepath.Join(home, "config", "sandboxmcp", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("host: {enabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startServer(t, home)
	ask := func(tool string, arguments map[string]any) string {
		t.Helper()
		content, _ := a.request("tools/call", map[string]any{"name": tool, "arguments": arguments})["content"].([]any)
		first, _ := content[0].(map[string]any)
		return fmt.Sprint(first["text"])
	}
	for variant := range 2 {
		for _, one := range []struct {
			tool      string
			arguments map[string]any
		}{
			{"request_egress", map[string]any{"domain": fmt.Sprintf("*.n%d.example.com", variant)}},
			{"request_egress", map[string]any{"domain": fmt.Sprintf("n%d.example.com:5432", variant), "namespace": "team", "duration_seconds": 600}},
			{"request_host_access", map[string]any{"kind": "command", "pattern": fmt.Sprintf("uname * n%d", variant)}},
			{"request_host_access", map[string]any{"kind": "read", "pattern": []string{"/usr/share", "/usr/lib"}[variant]}},
		} {
			printed := ask(one.tool, one.arguments)
			var commands []string
			for line := range strings.Lines(printed) {
				if line, ok := strings.CutPrefix(line, "  sandboxmcp "); ok {
					commands = append(commands, "sandboxmcp "+strings.TrimSpace(line))
				}
			}
			if len(commands) != 2 {
				t.Fatalf("%v: got %s", one, printed)
			}
			typed := command(t.Context(), t, home)
			typed.Path, typed.Args = "/bin/sh", []string{"sh", "-c", commands[variant]}
			if out, err := typed.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", commands[variant], err, out)
			}
			if got := ask(one.tool, one.arguments); !strings.HasPrefix(got, "approved: ") {
				t.Errorf("after %s: %s", commands[variant], got)
			}
		}
	}
}
