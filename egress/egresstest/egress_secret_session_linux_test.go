package egresstest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// server is a running sandboxmcp serve with its output.
type server struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	all strings.Builder
	n   int
}

func (w *world) serve(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{T: t, cmd: w.onHost("", append([]string{w.program}, append(flags, "serve", "--structured")...)...)}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewReaderSize(out, 1<<20)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.in.Close()
		s.cmd.Wait()
	})
	s.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "1"}})
	fmt.Fprintln(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

// request sends a request, and returns the complete response.
func (s *server) request(method string, params any) string {
	s.Helper()
	s.n++
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.n, "method": method, "params": params})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.in.Write(append(text, '\n')); err != nil {
		s.Fatal(err)
	}
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.Fatalf("%s: %v", method, err)
		}
		s.all.WriteString(line)
		var answer struct{ ID int }
		if json.Unmarshal([]byte(line), &answer) == nil && answer.ID == s.n {
			return line
		}
	}
}

// call calls a tool, and returns its structured result.
func (s *server) call(tool string, args map[string]any) map[string]any {
	s.Helper()
	line := s.request("tools/call", map[string]any{"name": tool, "arguments": args})
	var answer struct {
		Result struct {
			StructuredContent map[string]any
			Content           []struct{ Text string }
			IsError           bool
		}
	}
	if err := json.Unmarshal([]byte(line), &answer); err != nil {
		s.Fatal(err)
	}
	got := answer.Result.StructuredContent
	if got == nil {
		got = map[string]any{}
	}
	for _, c := range answer.Result.Content {
		got["said"] = fmt.Sprint(got["said"], c.Text)
	}
	return got
}

// session returns the id of a new session.
func (s *server) session(allow ...string) string {
	s.Helper()
	got := s.call("create_session", map[string]any{"language": "python", "allowed_domains": allow})
	id, _ := got["session_id"].(string)
	if id == "" {
		s.Fatalf("%v", got)
	}
	return id
}

func (s *server) cell(session, code string, secrets ...string) string {
	s.Helper()
	args := map[string]any{"session_id": session, "code": code, "language": "python"}
	if len(secrets) > 0 {
		args["secrets"] = secrets
	}
	return fmt.Sprint(s.call("execute_code", args))
}

// TestSecretInSessions leases secrets to sessions, cell by cell.
func TestSecretInSessions(t *testing.T) {
	a := &api{value: newValue()}
	other := newValue()
	w := newWorld(t, map[string]http.Handler{bound: a.listen(bound, a.ownHandlers()),
		"front.test": a.listen("front.test", http.NotFoundHandler())})
	w.bind(t, "", "API_KEY", a.value, "--host", bound, "--require")
	w.bind(t, "", "OTHER_KEY", other, "--host", "front.test")
	w.write("sandboxmcp.yaml", "egress:\n  allow: ["+bound+", front.test]\n")
	s := w.serve(t, "--config", w.path("sandboxmcp.yaml"))
	const prelude = `
import os, urllib.request, urllib.error, ssl
def ask(url, key="", path="/ok"):
    r = urllib.request.Request(url + path, headers={"Authorization": "Bearer " + key} if key else {})
    try:
        return "said: " + urllib.request.urlopen(r, timeout=5).read().decode().strip()
    except urllib.error.HTTPError as e:
        return f"said: {e.code} " + e.read().decode().strip()
    except OSError as e:
        return f"said: failed {e}"
api = "https://exact.example"
`
	one, two := s.session(bound, "front.test"), s.session(bound, "front.test")
	expect := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}
	for _, id := range []string{one, two} {
		expect("before the secret is leased", s.cell(id, prelude+"print(os.environ.get('API_KEY'), ask(api))"), "None said: ok unknown")
	}
	expect("the second cell", s.cell(one, "key = os.environ['API_KEY']; print(key[:11], ask(api, key))", "API_KEY"),
		"sandboxmcp_ said: ok known")
	expect("it is required now", s.cell(one, "print(ask(api))"), "said: 403")
	expect("a later cell", s.cell(one, "print(ask(api, key))"), "said: ok known")
	expect("the value in an answer", s.cell(one, "print(ask(api, key, '/give?where=body'))"), "REDACTED")
	expect("another secret, later", s.cell(one, "other = os.environ['OTHER_KEY']; print(ask('https://front.test', other), other == key)",
		"OTHER_KEY"), "404")
	expect("the other session", s.cell(two, "print(ask(api))"), "said: ok unknown")
	placeholder := s.cell(one, "print('it is ' + key + '.')")
	_, placeholder, _ = strings.Cut(placeholder, "it is ")
	placeholder, _, _ = strings.Cut(placeholder, ".")
	if !strings.HasPrefix(placeholder, "sandboxmcp_") {
		t.Fatalf("the placeholder: %s", placeholder)
	}
	expect("the other session with this one's placeholder", s.cell(two, "print(ask(api, '"+placeholder+"'))"), "said: ok unknown")
	expect("the other session's own", s.cell(two, "key = os.environ['API_KEY']; print(key != '"+placeholder+"', ask(api, key))", "API_KEY"),
		"True said: ok known")
	expect("and this one's beside", s.cell(two, "print(ask(api, '"+placeholder+"'))"), "said: 403")
	// A thread keeps sending requests while its session ends.
	expect("a thread", s.cell(one, `
import threading
asked = threading.Event()
def forever():
    while True:
        ask(api, key, '/ok?thread')
        asked.set()
threading.Thread(target=forever, daemon=True).start()
asked.wait()
print('began')
`), "began")
	threads := 0
	for _, h := range a.takeRequests() {
		if strings.Contains(h.uri, "thread") {
			threads++
		}
		if h.name == bound && strings.Contains(h.all(), other) || h.name != bound && strings.Contains(h.all(), a.value) {
			t.Errorf("%s has the other's value: %.300q", h.name, h.all())
		}
	}
	if threads == 0 {
		t.Error("the thread asked nothing")
	}
	s.call("terminate_session", map[string]any{"session_id": one})
	for i := range 2 {
		expect("the other goes on", s.cell(two, "for _ in range(20): said = ask(api, key)\nprint(said)"), "said: ok known")
		// one may have been on its way
		if slices.ContainsFunc(a.takeRequests(), func(h heard) bool { return strings.Contains(h.uri, "thread") }) && i > 0 {
			t.Error("a session that has ended goes on asking")
		}
	}
	three := s.session(bound)
	expect("a new one with an old placeholder", s.cell(three, prelude+"print(ask(api, '"+placeholder+"'))"), "said: ok unknown")
	expect("a deleted secret stays leased", func() string {
		if out, errs, err := w.runAndLog(w.onHost("", w.program, "vault", "delete", "API_KEY")); err != nil {
			t.Fatal(out, errs)
		}
		return s.cell(two, "print(ask(api, key))")
	}(), "said: ok known")
	expect("and is leased no more", s.cell(three, "print(1)", "API_KEY"), "API_KEY")
	clean(t, "all that the server said", s.all.String(), a.value)
	clean(t, "all that the server said", s.all.String(), other)
	log, _, _ := w.runAndLog(w.onHost("", w.program, "audit", "--format", "json"))
	clean(t, "the log", log, a.value)
	w.cleanState(t, "", a.value)
}

// TestSecretOlderSession starts a session before there is any bound secret.
func TestSecretOlderSession(t *testing.T) {
	a := &api{value: newValue()}
	w := newWorld(t, map[string]http.Handler{bound: a.listen(bound, a.ownHandlers())})
	w.write("sandboxmcp.yaml", "egress:\n  allow: ["+bound+"]\n")
	s := w.serve(t, "--config", w.path("sandboxmcp.yaml"))
	old := s.session(bound)
	w.bind(t, "", "API_KEY", a.value, "--host", bound)
	if got := s.cell(old, "import os; print(os.environ['API_KEY'])", "API_KEY"); !strings.Contains(got, "create another session") {
		t.Errorf("got %s", got)
	}
	const code = "import os, urllib.request as u; print(u.urlopen(u.Request('https://exact.example/ok', headers={'X-Api-Key': " +
		"os.environ['API_KEY']})).read())"
	if got := s.cell(s.session(bound), code, "API_KEY"); !strings.Contains(got, "ok known") {
		t.Errorf("got %s", got)
	}
}
