package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// fullServer is a server with its state on a small disk of its own.
type fullServer struct {
	t      *testing.T
	home   string
	client http.Client
	tokens map[string]string
	log    bytes.Buffer
	cmd    *exec.Cmd
}

// request sends a request with headers, as alternating names and values, and returns the response and its body.
func (s *fullServer) request(method, path, token, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+s.tokens[token])
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.client.Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(text)
}

// getJSON sends a request that must succeed, and decodes its response into v.
func (s *fullServer) getJSON(v any, method, path, token, body string) {
	s.t.Helper()
	if res, text := s.request(method, path, token, body); res.StatusCode >= 300 || json.Unmarshal([]byte(text), v) != nil {
		s.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
}

func (s *fullServer) statusOf(method, path, token string) int {
	res, _ := s.request(method, path, token, "")
	return res.StatusCode
}

// serveOnSmallDisk starts a server with tokens of agents, f1 and f2, and of a person, p.
func serveOnSmallDisk(t *testing.T) *fullServer {
	s := &fullServer{t: t, home: t.TempDir(), tokens: map[string]string{}}
	state := filepath.Join(s.home, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // never unlocked: the mounts belong to this thread and its children
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		hosttest.SkipMissing(t, "mount namespace", err.Error())
	}
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", state, "tmpfs", 0, "size=8m,mode=700"); err != nil {
		hosttest.SkipMissing(t, "tmpfs", err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
	s.start()
	return s
}

// start starts the server, after its tokens were created.
func (s *fullServer) start() {
	t := s.t
	t.Helper()
	for name, flags := range map[string][]string{"f1": {"--namespace", "team"}, "f2": {"--namespace", "team"},
		"p": {"--person", "--namespace", "*"}} {
		token, err := command(t.Context(), t, s.home, append([]string{"token", "create", name}, flags...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[name] = strings.TrimSpace(string(token))
	}
	path := filepath.Join(s.home, "http.sock")
	s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	s.cmd = command(t.Context(), t, s.home, "serve", "--listen", "unix:"+path)
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	hosttest.Until(t, "it listens", func() bool { _, err := os.Stat(path); return err == nil })
	hosttest.Until(t, "there is a file for rows that are owed", func() bool {
		_, err := os.Stat(filepath.Join(s.home, "state", "sandboxmcp", "sandboxmcp.db-owed"))
		return err == nil
	})
}

// beginMCP begins a session over /mcp, and returns a function that calls a tool in it.
func (s *fullServer) beginMCP() (call func(tool, arguments string) (*http.Response, string)) {
	accept := []string{"Accept", "application/json, text/event-stream"}
	begun, _ := s.request("POST", "/mcp", "f1", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, accept...)
	accept = append(accept, "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"))
	s.request("POST", "/mcp", "f1", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, accept...)
	return func(tool, arguments string) (*http.Response, string) {
		return s.request("POST", "/mcp", "f1", fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
			tool, arguments), accept...)
	}
}

// fillDisk leaves no room on the disk, until free.
func (s *fullServer) fillDisk() (free func()) {
	s.t.Helper()
	f, err := os.Create(filepath.Join(s.home, "state", "fill"))
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	return func() { os.Remove(f.Name()) }
}

// A full disk makes the server unready, but rights can still be revoked: revocations, denials and ends take effect at
// once, and their rows follow when there is room. Nothing else happens without a row; agents are told to retry, and
// learn no path of the host.
func TestFullDisk(t *testing.T) {
	requireFeatures(t, "sandbox", "root")
	s := serveOnSmallDisk(t)
	run := func() (*http.Response, string) {
		return s.request("POST", "/v1/tools/execute_code", "f1", `{"language":"shell","code":"echo hi"}`)
	}
	if res, text := run(); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	var session struct{ ID string }
	var sandbox struct{ SandboxID, EnvdAccessToken string }
	var question, granted struct {
		ID       string
		Question struct{ ID string }
	}
	s.getJSON(&session, "POST", "/sessions", "f1", "{}")
	s.getJSON(&sandbox, "POST", "/sandboxes", "f1", `{"templateID":"base","timeout":300}`)
	s.getJSON(&question, "POST", "/v1/approvals", "p", `{"kind":"egress","what":"a.example","namespace":"team"}`)
	s.getJSON(&granted, "POST", "/v1/grants", "p", `{"kind":"egress","what":"b.example","namespace":"team"}`)
	if s.statusOf("GET", "/sessions", "f2") != 200 || s.statusOf("GET", "/readyz", "") != 200 {
		t.Fatal("it is not ready")
	}
	free := s.fillDisk()
	if res, text := s.request("GET", "/readyz", "", ""); res.StatusCode != 503 || !strings.Contains(text, "the audit log can't be written") ||
		strings.Contains(text, s.home) {
		t.Errorf("/readyz: %d %s", res.StatusCode, text)
	}
	inSandbox := []string{"E2b-Sandbox-Id", sandbox.SandboxID, "X-Access-Token", sandbox.EnvdAccessToken, "E2b-Sandbox-Port"}
	for name, q := range map[string]struct {
		method, path, token, body string
		headers                   []string
	}{
		"a run":            {"POST", "/v1/tools/execute_code", "f1", `{"language":"shell","code":"echo hi"}`, nil},
		"a session's code": {"POST", "/sessions/" + session.ID + "/exec", "f1", `{"tool":"code_execution","input":{"code":"print(1)"}}`, nil},
		"a session":        {"POST", "/sessions", "f1", "{}", nil},
		"a sandbox":        {"POST", "/sandboxes", "f1", `{"templateID":"base","timeout":300}`, nil},
		"a sandbox's code": {"POST", "/execute", "", `{"code":"print(1)"}`, append(inSandbox[:5:5], "49999")},
		"a sandbox's file": {"POST", "/files?path=a", "", "x", append(inSandbox[:5:5], "49983", "Content-Type", "application/octet-stream")},
		"a grant":          {"POST", "/v1/grants", "p", `{"kind":"egress","what":"c.example","namespace":"team"}`, nil},
		"a question":       {"POST", "/v1/approvals", "p", `{"kind":"egress","what":"d.example","namespace":"team"}`, nil},
		"a yes":            {"POST", "/v1/approvals/" + question.ID, "p", `{"allow":true}`, nil},
	} {
		res, text := s.request(q.method, q.path, q.token, q.body, q.headers...)
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || strings.Contains(text, s.home) ||
			strings.Contains(text, "sandboxmcp.db") {
			t.Errorf("%s: %d, Retry-After %q, %s", name, res.StatusCode, res.Header.Get("Retry-After"), text)
		}
	}
	call := s.beginMCP()
	for tool, arguments := range map[string]string{"execute_code": `{"language":"shell","code":"echo hi"}`, "create_session": "{}",
		"request_egress": `{"domain":"e.example","reason":"x"}`} {
		res, text := call(tool, arguments)
		if res.StatusCode != 200 || !strings.Contains(text, `"isError":true`) || strings.Contains(text, s.home) ||
			strings.Contains(text, "sandboxmcp.db") {
			t.Errorf("%s: %d %s", tool, res.StatusCode, text)
		}
	}
	s.revokeRights(question.ID, granted.Question.ID, session.ID)
	free()
	hosttest.Until(t, "it is ready again", func() bool { return s.statusOf("GET", "/readyz", "") == 200 })
	hosttest.Until(t, "all rows are there", func() bool {
		_, text := s.request("GET", "/v1/log", "p", "")
		return strings.Contains(text, "token.revoked") && strings.Contains(text, "egress.denied") && strings.Contains(text, "egress.revoked") &&
			strings.Contains(text, "session.killed")
	})
	if res, text := run(); res.StatusCode != 200 {
		t.Errorf("with room again: %d %s", res.StatusCode, text)
	}
	if got := s.statusOf("GET", "/sessions", "f2"); got != 401 {
		t.Errorf("the revoked token: %d", got)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &s.log)
	}
	if out, err := command(t.Context(), t, s.home, "audit", "verify").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// revokeRights revokes several rights, each of which ends at once. The responses say that rows are late.
func (s *fullServer) revokeRights(question, granted, session string) {
	t := s.t
	t.Helper()
	for id, want := range map[string]string{question: `"allowed":false`, granted: `"revoked":true`} {
		if res, text := s.request("POST", "/v1/approvals/"+id, "p", `{"allow":false}`); res.StatusCode != 200 || !strings.Contains(text, want) ||
			!strings.Contains(text, `"late"`) {
			t.Errorf("a no: %d %s, want %s", res.StatusCode, text, want)
		}
	}
	if _, text := s.request("GET", "/v1/grants", "p", ""); strings.Contains(text, "b.example") {
		t.Errorf("what was taken back holds: %s", text)
	}
	if res, text := s.request("DELETE", "/sessions/"+session, "f1", ""); res.StatusCode != 204 || res.Header.Get("Warning") == "" {
		t.Errorf("the end of a session: %d %v %s", res.StatusCode, res.Header, text)
	}
	if got := s.statusOf("GET", "/sessions/"+session, "f1"); got == 200 {
		t.Error("the session lives")
	}
	out, err := command(t.Context(), t, s.home, "token", "revoke", "f2").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "revoked f2") || !strings.Contains(string(out), "is written as soon as") {
		t.Errorf("a token: %v, %s", err, out)
	}
	if got := s.statusOf("GET", "/sessions", "f2"); got != 401 {
		t.Errorf("the revoked token: %d", got)
	}
}
