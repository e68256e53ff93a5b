package sessions

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	projects "github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// rig is a server with a real pipeline and identities of any name.
type rig struct {
	t   *testing.T
	url string
	p   *pipeline.Pipeline
	log *audit.Log
	end func() // closes the server
}

func newRig(t *testing.T, sessions session.Config) *rig {
	t.Helper()
	return newRigAt(t, t.TempDir(), func(c *pipeline.Config) { *pipeline.EnsureSettings[session.Config](c) = sessions })
}

// newRigAt returns a rig whose log is in dir.
func newRigAt(t *testing.T, dir string, change func(*pipeline.Config)) *rig {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.OpenSigned(t.Context(), filepath.Join(dir, "audit.db"),
		audit.Signing{Key: func(context.Context) (crypto.Signer, error) { return key, nil }})
	if err != nil {
		t.Fatal(err)
	}
	backend := process.New(process.Config{StateDir: filepath.Join(dir, "state")})
	probe, err := backend.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers})
	if err != nil || !probe.Usable {
		backend.Close()
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	cfg := pipeline.Config{Backends: []backends.Backend{backend}, Audit: log, Vault: vault.New(vault.NewMemory()),
		Limits: pipeline.Bounds{Limits: backends.Limits{Disk: 512 << 20, RAM: 512 << 20}}}
	change(&cfg)
	p := pipeline.New(cfg)
	s := New(Config{Pipeline: p})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.Header.Get("X-Who") // instead of a token
		s.ServeHTTP(w, r.WithContext(asAgent(r.Context(), who)))
	}))
	end := sync.OnceFunc(func() {
		server.Close()
		p.Close()
		backend.Close()
		log.Close()
	})
	t.Cleanup(end)
	return &rig{t, server.URL, p, log, end}
}

// asAgent returns a context with the identity of an agent.
func asAgent(ctx context.Context, who string) context.Context {
	return identity.With(ctx, identity.Identity{Name: who, Kind: identity.Agent, Source: identity.FromToken, Namespaces: identity.Only(who)})
}

// call sends a request and returns its status, headers and body.
func (r *rig) call(method, path string, body any, headers ...string) (int, http.Header, []byte) {
	r.t.Helper()
	var text io.Reader = strings.NewReader("")
	switch b := body.(type) {
	case nil:
	case io.Reader:
		text = b
	default:
		data, err := json.Marshal(b)
		if err != nil {
			r.t.Fatal(err)
		}
		text = bytes.NewReader(data)
		headers = append([]string{"Content-Type", "application/json"}, headers...)
	}
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, text)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("X-Who", "ann")
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, res.Header, got
}

func (r *rig) newSession() (path string) {
	r.t.Helper()
	status, header, body := r.call("POST", Root, map[string]any{"idle_timeout_seconds": 600, "max_lifetime_seconds": 1200})
	var s described
	if err := json.Unmarshal(body, &s); err != nil || status != http.StatusCreated || header.Get("Location") != Root+"/"+s.ID ||
		s.Idle != 600 || s.Lifetime != 1200 {
		r.t.Fatalf("create: %d %s %v", status, body, err)
	}
	return Root + "/" + s.ID
}

// answered is a result block.
type answered struct {
	Type    string         `json:"type"`
	UseID   string         `json:"tool_use_id"`
	Content map[string]any `json:"content"`
}

func (r *rig) exec(path, tool string, input map[string]any) (a answered) {
	r.t.Helper()
	status, _, body := r.call("POST", path+"/exec", map[string]any{"tool": tool, "input": input, "tool_use_id": "srvtoolu_1"})
	if err := json.Unmarshal(body, &a); err != nil || status != http.StatusOK || a.UseID != "srvtoolu_1" || a.Type != tool+"_tool_result" {
		r.t.Fatalf("%s %v: %d %s %v", tool, input, status, body, err)
	}
	return a
}

// TestSecrets: an execution gets a secret of its namespace as a variable, and its value is redacted.
func TestSecrets(t *testing.T) {
	memory, value := vault.NewMemory(), "k3y-"+rand.Text()
	memory.Set("ann", "FORGE", []byte(value))
	r := newRigAt(t, t.TempDir(), func(c *pipeline.Config) { c.Vault = vault.New(memory) })
	path := r.newSession()
	for _, call := range []map[string]any{
		{"tool": codeTool, "input": map[string]any{"code": "import os; v = os.environ['FORGE']; print(len(v), v)"}, "secrets": []string{"FORGE"}},
		{"tool": bashTool, "input": map[string]any{"command": "echo ${#FORGE} $FORGE"}, "secrets": []string{"FORGE"}},
	} {
		if status, _, body := r.call("POST", path+"/exec", call); status != http.StatusOK ||
			!strings.Contains(string(body), strconv.Itoa(len(value))+" ") || strings.Contains(string(body), value) {
			t.Errorf("%v: %d %s", call["tool"], status, body)
		}
	}
	if status, _, body := r.call("POST", path+"/exec", map[string]any{"tool": codeTool, "input": map[string]any{"code": "1"},
		"secrets": []string{"OTHER"}}); !strings.Contains(string(body), "OTHER") || strings.Contains(string(body), `"return_code"`) {
		t.Errorf("one that there is not: %d %s", status, body)
	}
	if status, _, _ := r.call("POST", path+"/exec", map[string]any{"tool": editorTool, "input": map[string]any{},
		"secrets": []string{"FORGE"}}); status != http.StatusBadRequest {
		t.Errorf("an editor's: %d", status)
	}
}

// TestSession: a session is created with 201, shown, and ended twice with 204.
func TestSession(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	if status, _, body := r.call("GET", path, nil); status != http.StatusOK || !bytes.Contains(body, []byte(`"state":"idle"`)) {
		t.Errorf("get: %d %s", status, body)
	}
	for _, c := range [][2]string{{"GET", ""}, {"POST", "/exec"}, {"GET", "/files/list"}} {
		if status, _, body := r.call(c[0], path+c[1], map[string]string{}, "X-Who", "eve"); status != http.StatusNotFound {
			t.Errorf("%s %s of another: %d %s", c[0], c[1], status, body)
		}
	}
	if status, _, _ := r.call("DELETE", path, nil, "X-Who", "eve"); status != http.StatusNoContent {
		t.Errorf("another's end of it: %d", status)
	}
	if status, _, _ := r.call("GET", path, nil); status != http.StatusOK {
		t.Errorf("another has ended it: %d", status)
	}
	for range 2 {
		if status, _, body := r.call("DELETE", path, nil); status != http.StatusNoContent {
			t.Errorf("delete: %d %s", status, body)
		}
	}
	if status, _, _ := r.call("GET", path, nil); status != http.StatusNotFound {
		t.Errorf("one that has ended: %d", status)
	}
	for _, bad := range []string{`{"idle_timeout_seconds":-1}`, `{"max_lifetime_seconds":1e9}`, `{"language":"cobol"}`, `{`} {
		if status, _, body := r.call("POST", Root, strings.NewReader(bad), "Content-Type", "application/json"); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
}

// TestExec: code is answered by blocks: a failure is a result with its return code, and written files have ids.
func TestExec(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	a := r.exec(path, codeTool, map[string]any{"code": "x = 20\nprint('out')\nopen('a.txt', 'w').write('content')\nx + 1"})
	if a.Content["type"] != "code_execution_result" || a.Content["stdout"] != "out\n21\n" || a.Content["return_code"] != 0.0 {
		t.Errorf("got %v", a.Content)
	}
	files, _ := a.Content["content"].([]any)
	if len(files) != 1 {
		t.Fatalf("files are %v", files)
	}
	id, _ := files[0].(map[string]any)["file_id"].(string)
	if status, _, body := r.call("GET", path+"/files?file_id="+url.QueryEscape(id), nil); status != http.StatusOK ||
		string(body) != "content" || !strings.HasPrefix(id, "file_") {
		t.Errorf("the file %s: %d %s", id, status, body)
	}
	for _, c := range []struct {
		tool  string
		input map[string]any
		want  string // of the content, as JSON
	}{
		{codeTool, map[string]any{"code": "print(x); 1/0"}, `"return_code":1,"stderr":"Traceback`},
		{codeTool, map[string]any{"code": "def f(:"}, `"return_code":1,"stderr":`},
		{codeTool, map[string]any{"code": "import sys; sys.exit(7)"}, `"return_code":7`},
		{codeTool, map[string]any{"code": "print(x)"}, `"stdout":"20\n"`},
		{codeTool, map[string]any{}, `"error_code":"invalid_tool_input"`},
		{bashTool, map[string]any{"command": "cat a.txt; cd /tmp; V=1"},
			`"return_code":0,"stderr":"","stdout":"content","type":"bash_code_execution_result"`},
		{bashTool, map[string]any{"command": "pwd; echo $V; (exit 3)"}, `"return_code":3,"stderr":"","stdout":"/tmp\n1\n"`},
	} {
		text, _ := json.Marshal(r.exec(path, c.tool, c.input).Content)
		if !strings.Contains(string(text), c.want) {
			t.Errorf("%s %v: got %s, want %s", c.tool, c.input, text, c.want)
		}
	}
	status, _, body := r.call("POST", path+"/exec", map[string]any{"tool": codeTool,
		"input": map[string]any{"code": "import time; time.sleep(600)"}, "timeout_seconds": 0.3})
	if status != http.StatusOK || !bytes.Contains(body, []byte(`"error_code":"execution_time_exceeded"`)) ||
		!bytes.Contains(body, []byte(`"tool_use_id":"srvtoolu_`)) {
		t.Errorf("time is up: %d %s", status, body)
	}
	for _, bad := range []map[string]any{{"tool": "other"}, {"tool": codeTool, "timeout_seconds": -1}} {
		if status, _, body := r.call("POST", path+"/exec", bad); status != http.StatusBadRequest {
			t.Errorf("%v: %d %s", bad, status, body)
		}
	}
	status, header, body := r.call("POST", path+"/exec", map[string]any{"tool": codeTool, "input": map[string]any{"code": "print('é')\n1/0"}},
		"Accept", "text/event-stream")
	if status != http.StatusOK || header.Get("Content-Type") != "text/event-stream" ||
		!bytes.Contains(body, []byte("event: stdout\ndata: {\"text\":\"é\\n\",\"type\":\"stdout\"}\n\n")) ||
		!bytes.Contains(body, []byte("event: result\ndata: {\"type\":\"code_execution_tool_result\"")) ||
		!bytes.Contains(body, []byte(`"return_code":1`)) {
		t.Errorf("events: %d %v %s", status, header, body)
	}
	_, _, body = r.call("POST", path+"/exec", map[string]any{"tool": codeTool,
		"input": map[string]any{"code": "for i in range(3): display({'text/plain': f'shown {i}'}, raw=True)"}}, "Accept", "text/event-stream")
	last := -1
	for _, want := range []string{"shown 0", "shown 1", "shown 2", "event: result"} {
		if want != "event: result" {
			want = "event: display\ndata: {\"data\":{\"text/plain\":\"" + want + "\"},\"type\":\"display\"}\n\n"
		}
		if at := bytes.Index(body, []byte(want)); at <= last {
			t.Errorf("%q comes at %d, after %d: %s", want, at, last, body)
		} else {
			last = at
		}
	}
}

// TestEditor: the text editor's commands, and their refusals.
func TestEditor(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	for _, c := range []struct {
		input string
		want  string // in the content's JSON
	}{
		{`{"command":"create","path":"d/a.txt","file_text":"one\ntwo\nthree\n"}`,
			`"is_file_update":false,"type":"text_editor_code_execution_create_result"`},
		{`{"command":"view","path":"/workspace/d/a.txt"}`,
			`"content":"one\ntwo\nthree\n","file_type":"text","num_lines":3,"start_line":1,"total_lines":3`},
		{`{"command":"view","path":"d/a.txt","view_range":[2,-1]}`,
			`"content":"two\nthree","file_type":"text","num_lines":2,"start_line":2,"total_lines":3`},
		{`{"command":"view","path":"d/a.txt","view_range":[4,5]}`, `invalid_tool_input`},
		{`{"command":"view","path":"/workspace"}`, `"content":"/workspace\n/workspace/d/\n/workspace/d/a.txt\n"`},
		{`{"command":"view","path":"none"}`, `"error_code":"file_not_found"`},
		{`{"command":"view","path":"/etc/passwd"}`, `"error_code":"invalid_tool_input"`},
		{`{"command":"view","path":"../etc/passwd"}`, `"error_code":"invalid_tool_input"`},
		{`{"command":"str_replace","path":"d/a.txt","old_str":"two","new_str":"2\n2b"}`,
			`"lines":["-two","+2","+2b"],"new_lines":2,"new_start":2,"old_lines":1,"old_start":2`},
		{`{"command":"str_replace","path":"d/a.txt","old_str":"nowhere","new_str":"x"}`, `"error_code":"string_not_found"`},
		{`{"command":"str_replace","path":"d/a.txt","old_str":"2","new_str":"x"}`, `"error_code":"multiple_matches"`},
		{`{"command":"insert","path":"d/a.txt","insert_line":0,"insert_text":"zero"}`, `"lines":["+zero"],"new_lines":1,"new_start":1`},
		{`{"command":"insert","path":"d/a.txt","insert_line":9,"insert_text":"x"}`, `invalid_tool_input`},
		{`{"command":"view","path":"d/a.txt"}`, `"content":"zero\none\n2\n2b\nthree\n"`},
		{`{"command":"undo_edit","path":"d/a.txt"}`, `"lines":["-zero"]`},
		{`{"command":"undo_edit","path":"d/a.txt"}`, `"lines":["-2","-2b","+two"]`},
		{`{"command":"view","path":"d/a.txt"}`, `"content":"one\ntwo\nthree\n"`},
		{`{"command":"create","path":"d/a.txt","file_text":"new"}`, `"is_file_update":true`},
		{`{"command":"undo_edit","path":"d/a.txt"}`, `"lines":["-new","+one","+two","+three"]`},
		{`{"command":"undo_edit","path":"d/a.txt"}`, `"lines":["-one","-two","-three"]`},
		{`{"command":"view","path":"d/a.txt"}`, `"error_code":"file_not_found"`},
		{`{"command":"undo_edit","path":"d/a.txt"}`, `invalid_tool_input`},
		{`{"command":"other","path":"d/a.txt"}`, `invalid_tool_input`},
		{`{"command":"create","path":"d"}`, `invalid_tool_input`},
		{`{"command":"create","path":"d","file_text":"x"}`, `invalid_tool_input`},
	} {
		var input map[string]any
		if err := json.Unmarshal([]byte(c.input), &input); err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(r.exec(path, editorTool, input).Content)
		if !strings.Contains(string(text), c.want) {
			t.Errorf("%s: got %s, want %s", c.input, text, c.want)
		}
	}
	r.exec(path, codeTool, map[string]any{"code": "open('bin', 'wb').write(bytes(range(256)))"})
	if text, _ := json.Marshal(r.exec(path, editorTool, map[string]any{"command": "view", "path": "bin"}).Content); !strings.Contains(string(text), "is binary or too large") {
		t.Errorf("binary file: %s", text)
	}
}

// form returns a form with files.
func form(files ...[2]string) (io.Reader, string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range files {
		part, _ := w.CreateFormFile("file", f[0])
		_, _ = io.WriteString(part, f[1])
	}
	w.Close()
	return &b, w.FormDataContentType()
}

// TestFiles: files are uploaded and downloaded, and no path leads out of the workspace.
func TestFiles(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	body, kind := form([2]string{"a.txt", "aaa"}, [2]string{"sub/ü.bin", "\x00\xff"})
	status, _, got := r.call("POST", path+"/files", body, "Content-Type", kind)
	if status != http.StatusCreated || !bytes.Contains(got, []byte(`"path":"/workspace/sub/ü.bin"`)) || !bytes.Contains(got, []byte(`"size_bytes":2`)) {
		t.Errorf("upload: %d %s", status, got)
	}
	for name, want := range map[string]int{
		"a.txt": 200, "/workspace/a.txt": 200, "sub/ü.bin": 200, "../etc/passwd": 403, "/etc/passwd": 403, "sub/../../x": 403, "none": 404, "sub": 400, "": 400, "a.txt/x": 400,
	} {
		if status, _, got := r.call("GET", path+"/files?path="+url.QueryEscape(name), nil); status != want {
			t.Errorf("%q: %d %s, want %d", name, status, got, want)
		}
	}
	if _, header, got := r.call("GET", path+"/files?path=sub/%C3%BC.bin", nil); string(got) != "\x00\xff" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %q %v", got, header)
	}
	if status, _, got := r.call("GET", path+"/files/list", nil); status != 200 || !bytes.Contains(got, []byte("a.txt")) || !bytes.Contains(got, []byte("ü.bin")) || !bytes.Contains(got, []byte(`"file_id":"file_`)) {
		t.Errorf("list: %d %s", status, got)
	}
	for _, bad := range []string{"../x", "/etc/x", "sub/../../x"} {
		body, kind := form([2]string{bad, "x"})
		if status, _, got := r.call("POST", path+"/files", body, "Content-Type", kind); status != http.StatusForbidden {
			t.Errorf("upload of %s: %d %s", bad, status, got)
		}
	}
	empty, kind := form()
	if status, _, got := r.call("POST", path+"/files", empty, "Content-Type", kind); status != http.StatusBadRequest {
		t.Errorf("no file: %d %s", status, got)
	}
}

// TestCutOff: if the session ends during a download, the client does not mistake a part for the whole file.
func TestCutOff(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	r.exec(path, bashTool, map[string]any{"command": "truncate -s 256M big"})
	q, err := http.NewRequestWithContext(t.Context(), "GET", r.url+path+"/files?path=big", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Who", "ann")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if status, _, got := r.call("DELETE", path, nil); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, got)
	}
	if n, err := io.Copy(io.Discard, res.Body); res.StatusCode != http.StatusOK || err == nil {
		t.Errorf("%s, %d bytes without an error", res.Status, n)
	}
}

// TestManyParts: the number of a form's parts is bounded.
func TestManyParts(t *testing.T) {
	r := newRig(t, session.Config{})
	parts := strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n", door.MaxParts+1) + "--b--\r\n"
	status, _, got := r.call("POST", r.newSession()+"/files", strings.NewReader(parts), "Content-Type", "multipart/form-data; boundary=b")
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", status, got)
	}
}

// TestLargeFiles: an upload of 100 MB succeeds, and one byte over the limit fails, with and without a declared
// length.
func TestLargeFiles(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	send := func(size int64, known bool) (int, []byte) {
		t.Helper()
		head, tail := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"big\"\r\n\r\n", "\r\n--b--\r\n"
		body := io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, size), strings.NewReader(tail))
		q, err := http.NewRequestWithContext(t.Context(), "POST", r.url+path+"/files", body)
		if err != nil {
			t.Fatal(err)
		}
		if known {
			q.ContentLength = int64(len(head)) + size + int64(len(tail))
		}
		q.Header.Set("X-Who", "ann")
		q.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, text
	}
	for _, known := range []bool{true, false} {
		if status, text := send(MaxUpload, known); status != http.StatusCreated || !bytes.Contains(text, []byte(`"size_bytes":104857600`)) {
			t.Errorf("100 MB, known %v: %d %s", known, status, text)
		}
		if status, text := send(MaxUpload+1, known); status != http.StatusRequestEntityTooLarge {
			t.Errorf("a byte more, known %v: %d %s", known, status, text)
		}
		if status, text := send(MaxUpload+1<<20, known); status != http.StatusRequestEntityTooLarge {
			t.Errorf("more, known %v: %d %s", known, status, text)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestCapacity: at the session limit, the answer has a Retry-After.
func TestCapacity(t *testing.T) {
	r := newRig(t, session.Config{PerNamespace: 1})
	path := r.newSession()
	status, header, body := r.call("POST", Root, nil)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !bytes.Contains(body, []byte("overloaded_error")) {
		t.Errorf("%d %v %s", status, header, body)
	}
	r.call("DELETE", path, nil)
	r.newSession()
}

// TestIdle: an idle session ends, and is then answered like an unknown one.
func TestIdle(t *testing.T) {
	r := newRig(t, session.Config{})
	status, _, body := r.call("POST", Root, map[string]any{"idle_timeout_seconds": 1})
	var s described
	if err := json.Unmarshal(body, &s); err != nil || status != http.StatusCreated {
		t.Fatal(status, string(body), err)
	}
	hosttest.Until(t, "it ends", func() bool {
		info, err := session.InfoOf(r.p, "ann", s.ID)
		return err != nil || info.State == "dead" && time.Since(info.Created) > 0
	})
	if status, _, body := r.call("GET", Root+"/"+s.ID, nil); status != http.StatusNotFound {
		t.Errorf("%d %s", status, body)
	}
}

// callJob sends a request about a job.
func (r *rig) callJob(method, path string, want int) (j job) {
	r.t.Helper()
	status, _, body := r.call(method, path, nil)
	if status != want {
		r.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &j); err != nil {
			r.t.Fatal(err)
		}
	}
	return j
}

// TestJobs: a job continues after its client has disconnected, reports its output, can be waited for, and can be
// killed.
func TestJobs(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	begin := func(tool, text string) string {
		t.Helper()
		input := map[string]any{"code": text, "command": text}
		ctx, cancel := context.WithCancel(t.Context())
		body, _ := json.Marshal(map[string]any{"tool": tool, "input": input, "background": true, "tool_use_id": "srvtoolu_9"})
		q, _ := http.NewRequestWithContext(ctx, "POST", r.url+path+"/exec", bytes.NewReader(body))
		q.Header.Set("X-Who", "ann")
		q.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		cancel() // the client disconnects
		if res.StatusCode != http.StatusAccepted || !strings.HasPrefix(res.Header.Get("Location"), path+"/jobs/") {
			t.Fatalf("%s %v", res.Status, res.Header)
		}
		return res.Header.Get("Location")
	}
	one := begin(bashTool, "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo ended; exit 3")
	hosttest.Until(t, "the job writes", func() bool { return strings.Contains(r.callJob("GET", one, 200).Stdout, "begun") })
	if j := r.callJob("GET", one+"?wait=0.1", 200); j.State != "running" || j.Block != nil || j.Tool != bashTool {
		t.Errorf("got %+v", j)
	}
	r.exec(path, codeTool, map[string]any{"code": "open('go', 'w')"})
	j := r.callJob("GET", one+"?wait=50", 200)
	if content, _ := json.Marshal(j.Block); j.State != "done" || j.Block == nil || j.Block.UseID != "srvtoolu_9" || !strings.Contains(string(content), `"stdout":"begun\nended\n"`) || !strings.Contains(string(content), `"return_code":3`) {
		t.Errorf("got %+v %s", j, content)
	}
	two := begin(codeTool, "import time\ntime.sleep(1000)")
	r.callJob("DELETE", two, 204)
	if j := r.callJob("GET", two+"?wait=50", 200); j.State != "done" || j.Block == nil {
		t.Errorf("killed: %+v", j)
	}
	r.callJob("DELETE", two, 204)
	var list struct{ Jobs []job }
	if _, _, body := r.call("GET", path+"/jobs", nil); json.Unmarshal(body, &list) != nil || len(list.Jobs) != 2 || !strings.HasSuffix(two, list.Jobs[0].ID) {
		t.Errorf("got %s", body)
	}
	r.callJob("GET", path+"/jobs/none", 404)
	if status, _, body := r.call("GET", one, nil, "X-Who", "eve"); status != http.StatusNotFound {
		t.Errorf("another's: %d %s", status, body)
	}
	for _, body := range []map[string]any{{"tool": editorTool, "background": true, "input": map[string]any{"command": "view", "path": "/workspace"}}} {
		if status, _, text := r.call("POST", path+"/exec", body); status != http.StatusBadRequest {
			t.Errorf("%v: %d %s", body, status, text)
		}
	}
	if status, _, text := r.call("GET", one+"?wait=x", nil); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text)
	}
	if a := r.exec(path, codeTool, map[string]any{"code": "6 * 7"}); a.Content["stdout"] != "42\n" {
		t.Errorf("afterwards: %v", a)
	}
}

// TestTar: a directory is uploaded and downloaded as a tar with its hash, and exports are copied between sessions of
// a caller.
func TestTar(t *testing.T) {
	r := newRig(t, session.Config{})
	path, other := r.newSession(), r.newSession()
	r.exec(path, bashTool, map[string]any{"command": "mkdir -p exports/d; echo one >exports/d/one; echo two >two; ln -s /etc/passwd exports/out"})
	status, header, text := r.call("GET", path+"/files/tar?path=exports", nil)
	if status != 200 || header.Get("Content-Type") != operation.Tar {
		t.Fatalf("%d %s", status, text)
	}
	sum := sha256.Sum256(text)
	for digest, want := range map[string]int{digestOf(sum[:]): 200, "": 200, "sha-512=:x:, " + digestOf(sum[:]): 200, digestOf(make([]byte, 32)): 400, "md5=:x:": 400} {
		headers := []string{"Content-Type", operation.Tar}
		if digest != "" {
			headers = append(headers, "Content-Digest", digest)
		}
		status, _, got := r.call("PUT", other+"/files/tar?path=in", bytes.NewReader(text), headers...)
		if status != want || want == 200 && string(got) != `{"files":1,"bytes":4}`+"\n" {
			t.Errorf("%q: %d %s", digest, status, got)
		}
	}
	if a := r.exec(other, bashTool, map[string]any{"command": "cd in; find . | sort; cat d/one"}); a.Content["stdout"] != ".\n./d\n./d/one\none\n" {
		t.Errorf("got %v", a.Content)
	}
	for _, tt := range []struct {
		method, path string
		body         any
		headers      []string
		want         int
	}{
		{"GET", path + "/files/tar?path=none", nil, nil, 404}, {"GET", path + "/files/tar?path=two", nil, nil, 400}, {"GET", path + "/files/tar?path=../etc", nil, nil, 403},
		{"GET", path + "/files/tar?path=/etc", nil, nil, 403}, {"PUT", path + "/files/tar?path=/etc", strings.NewReader("x"), []string{"Content-Type", operation.Tar}, 403},
		{"PUT", path + "/files/tar", strings.NewReader("what is this?"), []string{"Content-Type", operation.Tar}, 400}, {"PUT", path + "/files/tar", strings.NewReader("x"), nil, 415},
		{"POST", other + "/copy", map[string]any{"from_session": path[len(Root)+1:], "path": "../two"}, nil, 404},
		{"POST", other + "/copy", map[string]any{"from_session": path[len(Root)+1:], "path": "d", "to": "/etc"}, nil, 403},
		{"POST", other + "/copy", map[string]any{"from_session": "none", "path": "d"}, nil, 404}, {"POST", other + "/copy", map[string]any{"path": "d"}, nil, 400},
		{"POST", other + "/copy", map[string]any{"from_session": path[len(Root)+1:], "path": "d"}, []string{"X-Who", "eve"}, 404},
		{"POST", other + "/copy", map[string]any{"from_session": path[len(Root)+1:], "path": "d", "to": "copied"}, nil, 200},
	} {
		if status, _, body := r.call(tt.method, tt.path, tt.body, tt.headers...); status != tt.want {
			t.Errorf("%s %s %v: %d %s, want %d", tt.method, tt.path, tt.body, status, body, tt.want)
		}
	}
	if a := r.exec(other, bashTool, map[string]any{"command": "cat /workspace/copied/one"}); a.Content["stdout"] != "one\n" {
		t.Errorf("got %v", a.Content)
	}
}

// TestGone: an ended session is answered with the reason.
func TestGone(t *testing.T) {
	r := newRig(t, session.Config{})
	path := r.newSession()
	for who, want := range map[string]bool{"ann": true, "eve": false} {
		if status, _, body := r.call("GET", Root, nil, "X-Who", who); status != http.StatusOK || strings.Contains(string(body), path[len(Root)+1:]) != want {
			t.Errorf("%s lists %d %s", who, status, body)
		}
	}
	r.call("DELETE", path, nil)
	for who, want := range map[string]string{"ann": "it was closed", "eve": "session not found"} {
		if status, _, body := r.call("GET", path, nil, "X-Who", who); status != http.StatusNotFound || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s", who, status, body)
		}
	}
}

func digestOf(sum []byte) string { return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":" }

// A session in a workspace has its files, and proposes what it changed of them at its end.
func TestWorkspace(t *testing.T) {
	dir, project := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "a.txt"), []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRigAt(t, dir, func(c *pipeline.Config) {
		*pipeline.EnsureSettings[projects.Config](c) = projects.Config{Dir: filepath.Join(dir, "sets"),
			Named: map[string]projects.Named{"app": {Name: "app", Path: project, Changes: projects.AskPerson}}}
	})
	status, _, body := r.call("POST", Root, map[string]any{"workspace": "app"})
	var made described
	if err := json.Unmarshal(body, &made); err != nil || status != http.StatusCreated {
		t.Fatalf("got %d %s", status, body)
	}
	path := Root + "/" + made.ID
	if _, _, got := r.call("GET", path+"/files?path=a.txt", nil); string(got) != "one" {
		t.Errorf("a.txt is %q", got)
	}
	r.exec(path, bashTool, map[string]any{"command": "echo new >b.txt"})
	if _, _, got := r.call("GET", path+"/files?path=b.txt", nil); string(got) != "new\n" {
		t.Errorf("b.txt is %q", got)
	}
	if status, _, got := r.call("DELETE", path, nil); status/100 != 2 {
		t.Fatalf("got %d %s", status, got)
	}
	sets, err := projects.List(r.p, changes.Filter{Session: made.ID})
	if _, gone := os.Stat(filepath.Join(project, "b.txt")); err != nil || len(sets) != 1 || sets[0].Counts.Added != 1 || gone == nil {
		t.Errorf("%+v, %v; b.txt on the host: %v", sets, err, gone)
	}
}
