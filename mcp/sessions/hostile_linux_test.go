package sessions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// sendAndLeave sends a request whose client disconnects once ready returns true.
func (r *rig) sendAndLeave(path string, body any, accept string, ready func() bool) {
	r.t.Helper()
	ctx, leave := context.WithCancel(r.t.Context())
	defer leave()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(ctx, "POST", r.url+path, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Who": "ann", "Content-Type": "application/json", "Accept": accept} {
		q.Header.Set(name, value)
	}
	ended := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(q)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		ended <- err
	}()
	hosttest.Until(r.t, "the request is under way", ready)
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		r.t.Errorf("%s was answered before its client left: %v", path, err)
	}
}

// TestClientLeaves: code ends if its client disconnects while waiting for it, in any state; the session continues
// with its variables.
func TestClientLeaves(t *testing.T) {
	queue := pipeline.NewQueue(1, 0)
	r := newRigAt(t, t.TempDir(), func(c *pipeline.Config) { c.Queue = queue })
	path := r.openTools()
	id := strings.TrimPrefix(path, Root+"/")
	if _, body := r.runCode(path, "kept = 42"); !strings.Contains(string(body), `"return_code":0`) {
		t.Fatalf("%s", body)
	}
	begin := func(code string) map[string]any {
		return map[string]any{"tool": codeTool, "input": map[string]string{"code": code}, "timeout_seconds": 3600}
	}
	running := func() bool { return r.p.Load().Running == 1 }
	waiting := func() bool {
		for _, j := range run.Jobs(r.p, "ann") {
			if j.Session == id && len(j.Calls) > 0 {
				return true
			}
		}
		return false
	}
	idle := func(name string) {
		t.Helper()
		hosttest.Until(t, "the session is idle: "+name, func() bool {
			info, err := session.InfoOf(r.p, "ann", id)
			l := r.p.Load()
			return err == nil && info.State == "idle" && l.Running == 0 && l.Waiting == 0
		})
		if _, body := r.runCode(path, "print(kept)"); !strings.Contains(string(body), `"stdout":"42\n"`) {
			t.Errorf("%s: %s", name, body)
		}
	}
	for _, accept := range []string{"application/json", "text/event-stream"} {
		r.sendAndLeave(path+"/exec", begin("import time\nwhile True: time.sleep(0.01)"), accept, running)
		idle("code that runs, as " + accept)
	}
	r.sendAndLeave(path+"/exec", begin("from tools import lookup\nlookup('Oslo')"), "text/event-stream", waiting)
	idle("code that waits for its stream's client")
	for _, state := range []string{"runs on", "queues again"} {
		_, body := r.runCode(path, "import time\nfrom tools import lookup\nlookup('Oslo')\nwhile True: time.sleep(0.01)")
		p := paused(t, body)
		if l := r.p.Load(); l.Running != 0 {
			t.Errorf("code that waits has a slot: %+v", l)
		}
		give, ready := func() {}, running
		if state == "queues again" {
			var err error
			if give, err = queue.Acquire(asAgent(t.Context(), "ann"), "ann", 1, nil); err != nil {
				t.Fatal(err)
			}
			ready = func() bool { return r.p.Load().Waiting == 1 }
		}
		r.sendAndLeave(path+"/exec/"+p.ExecID+"/results", map[string]any{
			"tool_results": []any{map[string]any{"tool_use_id": p.Content[0].ID, "content": 1}}}, "", ready)
		hosttest.Until(t, "it "+state+" no more", func() bool { return r.p.Load().Waiting == 0 })
		give()
		idle("code that " + state + " with its results")
	}
	// Also without functions of the client.
	plain := r.newSession()
	id, path = strings.TrimPrefix(plain, Root+"/"), plain
	r.runCode(path, "kept = 42")
	r.sendAndLeave(path+"/exec", begin("import time\nwhile True: time.sleep(0.01)"), "application/json", running)
	idle("a session without functions")
}

// TestDataAndGit: sessions see their data directories, read-only, and commit with their configured author.
func TestDataAndGit(t *testing.T) {
	hosttest.Program(t, "git")
	dir := t.TempDir()
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		os.Chmod(at, 0o755) // programs run as another user
	}
	if err := os.WriteFile(filepath.Join(dir, "numbers"), []byte("6 7"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRigAt(t, t.TempDir(), func(c *pipeline.Config) {
		c.Data, c.Git = map[string]string{"sets": dir}, pipeline.GitIdentity{Name: "Ada", Email: "ada@example.com"}
	})
	status, _, body := r.call("POST", Root, map[string]any{"data": []string{"sets"}, "git_name": "Bob"})
	var made described
	if json.Unmarshal(body, &made); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	path := Root + "/" + made.ID
	got := r.exec(path, bashTool, map[string]any{"command": "cat /data/sets/numbers; ls /data; touch /data/sets/x 2>/dev/null || echo no; " +
		"git init -q r && cd r && git commit -q --allow-empty -m x && git log -1 --format='%an %ae, %cn %ce'"})
	if text := fmt.Sprint(got.Content["stdout"]); text != "6 7sets\nno\nBob ada@example.com, Bob ada@example.com\n" {
		t.Errorf("got %q %v", text, got.Content["stderr"])
	}
	if status, _, body := r.call("GET", path+"/files?path="+url.QueryEscape("/data/sets/numbers"), nil); status != http.StatusForbidden {
		t.Errorf("data as a file of the workspace: %d %s", status, body)
	}
	for _, bad := range []map[string]any{{"data": []string{"../sets"}}, {"data": []string{"none"}}, {"data": []string{dir}},
		{"git_name": "a\x00b"}, {"git_email": strings.Repeat("a", 300<<10)}} {
		if status, _, body := r.call("POST", Root, bad); status != http.StatusBadRequest || strings.Contains(string(body), dir) &&
			bad["data"] == nil {
			t.Errorf("%.80v: %d %.200s", bad, status, body)
		}
	}
}

// TestPastSessions: after a restart, a server describes earlier sessions and jobs to their owners, as long as the log
// has their rows.
func TestPastSessions(t *testing.T) {
	dir := t.TempDir()
	nothing := func(*pipeline.Config) {}
	first := newRigAt(t, dir, nothing)
	path := first.newSession()
	status, _, body := first.call("POST", path+"/exec", map[string]any{"tool": codeTool, "background": true,
		"input": map[string]string{"code": "1"}})
	var j job
	if json.Unmarshal(body, &j); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	run.WaitJob(t.Context(), first.p, "ann", j.ID)
	first.end()
	second := newRigAt(t, dir, nothing)
	answerTo := func(who string) string {
		t.Helper()
		status, _, body := second.call("GET", path, nil, "X-Who", who)
		if status != http.StatusNotFound {
			t.Errorf("%s: %d %s", who, status, body)
		}
		for _, suffix := range []string{"/files/list", "/jobs", "/jobs/" + j.ID} {
			if s, _, b := second.call("GET", path+suffix, nil, "X-Who", who); s != status || !bytes.Equal(b, body) {
				t.Errorf("%s of %s: %d %s, want %s", who, suffix, s, b, body)
			}
		}
		return string(body)
	}
	if text := answerTo("ann"); !strings.Contains(text, "the session has ended: ") {
		t.Errorf("its owner is told %s", text)
	}
	none := answerTo("eve")
	if !strings.Contains(none, "session not found") {
		t.Errorf("another is told %s", none)
	}
	if status, _, _ := second.call("DELETE", path, nil); status != http.StatusNoContent {
		t.Errorf("its end once more: %d", status)
	}
	if _, _, list := second.call("GET", Root, nil); strings.Contains(string(list), path[len(Root)+1:]) {
		t.Errorf("it is listed: %s", list)
	}
	if _, err := second.log.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("after the log was rotated, its owner is told %s", answerTo("ann"))
	if text := answerTo("eve"); text != none {
		t.Errorf("after the log was rotated, another is told %s", text)
	}
}

// TestIDsOfOthers: no request reveals whether another caller has a session: the answer is the same as for an unknown
// one.
func TestIDsOfOthers(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	status, _, body := r.call("POST", path+"/exec", map[string]any{"tool": codeTool, "background": true,
		"input": map[string]string{"code": "1"}})
	var j job
	if json.Unmarshal(body, &j); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	never := Root + "/" + pipeline.NewID()
	tarred, kind := form([2]string{"a", "x"})
	for _, q := range []struct {
		method, suffix string
		body           any
		kind           string
	}{
		{"GET", "", nil, ""}, {"DELETE", "", nil, ""}, {"POST", "/exec",
			map[string]any{"tool": codeTool, "input": map[string]string{"code": "1"}}, ""},
		{"POST", "/exec", map[string]any{}, ""}, {"POST", "/exec/" + j.ID + "/results", map[string]any{}, ""}, {"POST", "/files", tarred, kind},
		{"GET", "/files?path=x", nil, ""}, {"GET", "/files?path=../x", nil, ""}, {"GET", "/files/list", nil, ""}, {"GET", "/files/tar", nil, ""},
		{"PUT", "/files/tar", nil, ""},
		{"POST", "/copy", map[string]any{}, ""}, {"GET", "/jobs", nil, ""}, {"GET", "/jobs/" + j.ID, nil, ""},
		{"GET", "/jobs/" + j.ID + "?wait=x", nil, ""}, {"DELETE", "/jobs/" + j.ID, nil, ""},
	} {
		headers := []string{"X-Who", "eve"}
		if q.kind != "" {
			headers = append(headers, "Content-Type", q.kind)
		}
		status, header, body := r.call(q.method, path+q.suffix, q.body, headers...)
		wantStatus, wantHeader, want := r.call(q.method, never+q.suffix, q.body, headers...)
		header.Del("Date")
		wantHeader.Del("Date")
		if status != wantStatus || !bytes.Equal(body, want) || fmt.Sprint(header) != fmt.Sprint(wantHeader) || status != 404 &&
			q.method+q.suffix != "DELETE" {
			t.Errorf("%s %s: %d %s, and of one that never was %d %s", q.method, q.suffix, status, body, wantStatus, want)
		}
	}
	_, own, _ := r.call("POST", Root, nil, "X-Who", "eve")
	mine := own.Get("Location")
	for _, from := range []string{path, never} { // a copy from it
		status, _, body := r.call("POST", mine+"/copy", map[string]any{"from_session": from[len(Root)+1:], "path": "x"}, "X-Who", "eve")
		if text := strings.ReplaceAll(string(body), from[len(Root)+1:], "ID"); status != 404 ||
			!strings.Contains(text, `unknown session: \"ID\"`) {
			t.Errorf("a copy: %d %s", status, text)
		}
	}
}

// TestHostileFiles: files made by a session's code neither block the server nor expose the host, and the editor does
// not see other sessions.
func TestHostileFiles(t *testing.T) {
	r := newRig(t, session.Config{})
	path, other := r.newSession(), r.newSession()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	for at := filepath.Dir(secret); at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		os.Chmod(at, 0o755)
	}
	r.exec(path, bashTool, map[string]any{"command": "mkdir d; mkfifo d/pipe; ln -s /dev/zero d/zero; ln -s " + secret +
		" d/host; ln -s /proc/1/root" + secret + " d/root; ln -s / d/top; ln -s d d/self; ln -s loop d/loop; " +
		"ln -s /proc/self/mem d/mem; ln -s /proc/kcore d/kcore; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('d/socket')\"; printf '\\xff\\xfe' > d/binary; echo x > \"$(printf 'd/\\033[31mred\\n')\""})
	for _, name := range []string{"pipe", "zero", "host", "root", "mem", "kcore", "socket", "loop", "top" + secret, "top/proc/kcore",
		"top/etc/shadow"} {
		status, _, body := r.call("GET", path+"/files?path="+url.QueryEscape("d/"+name), nil)
		if status == http.StatusOK || bytes.Contains(body, []byte("of the host")) || status >= 500 {
			t.Errorf("%s is read: %d %.100q", name, status, body)
		}
		for _, command := range []string{"view", "str_replace", "create"} {
			if command == "create" && !strings.HasPrefix(name, "top/proc") && !strings.HasPrefix(name, "top/etc") {
				continue // a file of the sandbox
			}
			a := r.exec(path, editorTool, map[string]any{"command": command, "path": "/workspace/d/" + name, "old_str": "h", "new_str": "x",
				"file_text": "x"})
			if a.Content["error_code"] == nil || strings.Contains(fmt.Sprint(a.Content), "of the host") {
				t.Errorf("%s of %s: %v", command, name, a.Content)
			}
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "of the host" {
		t.Errorf("the host's file: %q %v", text, err)
	}
	if status, _, body := r.call("GET", path+"/files/list", nil); status != 200 || bytes.Contains(body, []byte("\x1b")) ||
		bytes.Contains(body, []byte("of the host")) {
		t.Errorf("list: %d %.300q", status, body)
	}
	if status, header, _ := r.call("GET", path+"/files?path="+url.QueryEscape("d/\x1b[31mred\n"), nil); status == 200 &&
		strings.ContainsAny(header.Get("Content-Disposition"), "\x1b\n") {
		t.Errorf("a name in a header: %v", header)
	}
	for _, name := range []string{"..", "../../etc/passwd", "/etc/passwd", "d/../../etc/passwd", "/workspace/../etc/passwd", "/workspaceX",
		"//etc/passwd", "a\x00b", "."} {
		for _, suffix := range []string{"/files", "/files/tar", "/files/list"} {
			status, _, body := r.call("GET", path+suffix+"?path="+url.QueryEscape(name), nil)
			if status == 200 && name != "." || status >= 500 {
				t.Errorf("%s of %q: %d %.100q", suffix, name, status, body)
			}
		}
	}
	// ../../etc/passwd, /etc/passwd
	for _, id := range []string{"file_Li4vLi4vZXRjL3Bhc3N3ZA", "file_L2V0Yy9wYXNzd2Q", "file_", "file_!!!", "x"} {
		if status, _, body := r.call("GET", path+"/files?file_id="+id, nil); status == 200 || status >= 500 {
			t.Errorf("the file %s: %d %.100q", id, status, body)
		}
	}
	r.exec(path, editorTool, map[string]any{"command": "create", "path": "/workspace/mine", "file_text": "1"})
	r.exec(path, editorTool, map[string]any{"command": "create", "path": "/workspace/mine", "file_text": "2"})
	if a := r.exec(other, editorTool, map[string]any{"command": "undo_edit", "path": "/workspace/mine"}); !strings.Contains(fmt.Sprint(a.Content["message"]), "no edit") {
		t.Errorf("an edit of another session is undone: %v", a.Content)
	}
	if a := r.exec(path, editorTool, map[string]any{"command": "undo_edit", "path": "/workspace/mine"}); a.Content["type"] != editorTool+"_undo_edit_result" {
		t.Errorf("its own: %v", a.Content)
	}
}

// TestFalseLengths: a form that is shorter or longer than declared writes no part of a file, and is the client's
// error.
func TestFalseLengths(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	whole := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cut\"\r\n\r\n" + strings.Repeat("x", 100_000) + "\r\n--b--\r\n"
	for name, c := range map[string]struct {
		length int
		body   string
	}{
		"longer than it says":     {len(whole) - 50_000, whole},
		"shorter than it says":    {len(whole) + 1000, whole[:60_000]},
		"without an end":          {60_000, whole[:60_000]},
		"without an end of parts": {len(whole) - 8, whole[:len(whole)-8]},
		"no form":                 {4, "what"},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s/files HTTP/1.1\r\nHost: x\r\nX-Who: ann\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n%s", path, c.length, c.body)
		conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) && !bytes.Contains(answer, []byte("context canceled")) && len(answer) > 0 { // the server may drop a truncated connection
			t.Errorf("%s: %.300s", name, answer)
		}
		hosttest.Until(t, "nothing is left of a form "+name, func() bool {
			got := r.exec(path, bashTool, map[string]any{"command": "ls -A"})
			return got.Content["stdout"] == ""
		})
	}
}
