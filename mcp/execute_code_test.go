package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
)

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestExecute(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	for _, test := range []struct {
		name, arguments string
		ended           string
		want            []string
	}{
		{"python", `{"code":"print(6*7)","language":"python"}`, "ok", []string{"exit code 0", "stdout (3 bytes):\n42\n", "\nrequest_id: "}},
		{"default language", `{"code":"print(6*7)"}`, "ok", []string{"42"}},
		{"alias", `{"code":"console.log(6*7)","language":"javascript"}`, "ok", []string{"42"}},
		{"typescript", `{"code":"const x: number = 42; console.log(x)","language":"typescript"}`, "ok", []string{"42"}},
		{"nothing", `{"code":"true","language":"shell"}`, "ok", []string{"no output"}},
		{"exit", `{"code":"echo out; echo err >&2; exit 7","language":"shell"}`, "exit", []string{"exit code 7", "stdout (4 bytes):\nout",
			"stderr (4 bytes):\nerr"}},
		{"exception", `{"code":"def f():\n  raise ValueError('no')\nf()"}`, "exit", []string{"exit code 1", "ValueError: no"}},
		{"signal", `{"code":"kill -SEGV $$","language":"shell"}`, "signal", []string{"exit code 139, killed by SIGSEGV"}},
		{"timeout", `{"code":"sleep 100","language":"shell","timeout":0.3}`, "timeout",
			[]string{"timed out after ", "hint: ", "raise it with timeout"}},
		{"timeout as text", `{"code":"sleep 100","language":"shell","resource_limits":{"timeout_seconds":"0.3"}}`, "timeout",
			[]string{"timed out after "}},
		{"args, env, stdin", `{"code":"echo $1 $A; cat","language":"shell","args":["one"],"env":{"A":"two","B":"x=y"},"stdin":"three"}`, "ok",
			[]string{"one two\nthree"}},
		{"files", fmt.Sprintf(`{"code":"cat a.txt d/b.bin c d e f","language":"shell","files":{"a.txt":"text ","d/b.bin":"data:;base64,%s","c":"{\"a\":1} ","e":{"text":"e "},"f":{"base64":"Zg"},"d":"x"}}`,
			base64.StdEncoding.EncodeToString([]byte("binary "))), "", nil},
		{"files of all kinds", fmt.Sprintf(`{"code":"cat a b c e f","language":"shell","files":{"a":"text ","b":"data:text/plain;base64,%s","c":"{\"a\":1} ","e":{"text":"e "},"f":{"base64":"Zg"}}}`,
			base64.StdEncoding.EncodeToString([]byte("binary "))), "ok", []string{`text binary {"a":1} e f`}},
		{"files of other tools", `{"code":"cat a b c","language":"shell","files":{"a":{"content":"text "},"/workspace/b":{"content":"YmluYXJ5IA==","encoding":"base64"},"c":{"text":"c"}}}`, "ok", []string{"text binary c"}},
		{"list of files", `{"code":"cat a b","language":"shell","files":[{"name":"a","content":"one "},{"path":"b","base64":"dHdv"}]}`, "ok",
			[]string{"one two"}},
		{"line ends of Windows", `{"code":"\ufeffif true; then\r\n  echo fine\r\nfi\r\n","language":"shell"}`, "ok",
			[]string{"stdout (5 bytes):\nfine\n"}},
		{"one CR", `{"code":"echo 'a\r'\necho b","language":"shell"}`, "ok", []string{"stdout (5 bytes)"}},
		{"numbers", `{"code":"echo $1 $A","language":"shell","args":[1.50],"env":{"A":2}}`, "ok", []string{"1.50 2"}},
		{"escapes", `{"code":"printf 'a\\033[31mred\\u202e\\377'","language":"shell"}`, "ok", []string{`a\u001b[31mred\u202e\xff`}},
		{"secret", `{"code":"echo $TEST_SECRET | cut -c1-7; echo $TEST_SECRET","language":"shell","secrets":["TEST_SECRET"]}`, "ok",
			[]string{"correct\n", "REDACTED"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := p.tool("execute_code", test.arguments)
			checkConforms(t, test.name, schemas["execute_code"], r.Structured)
			if test.ended == "" {
				if !r.IsError {
					t.Errorf("got %q", r.text)
				}
				return
			}
			if r.IsError || r.facts["ended"] != test.ended {
				t.Fatalf("got %v, %v: %s", r.IsError, r.facts["ended"], r.text)
			}
			contains(t, r.text, test.want...)
		})
	}
}

// TestRefusals: refusals have isError, a reason and a remedy.
func TestRefusals(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	for _, test := range []struct {
		name, arguments string
		want            []string
	}{
		{"syntax", `{"code":"const = ;","language":"node"}`, []string{"script:1:7"}},
		{"empty code", `{"code":"","language":"shell"}`, []string{"empty"}},
		{"above a cap", `{"code":"true","language":"shell","resource_limits":{"max_ram_mb":1000000}}`,
			[]string{"cap", "resource_limits.max_ram_mb"}},
		{"unknown secret", `{"code":"true","language":"shell","secrets":["NO_SUCH"]}`, []string{"NO_SUCH"}},
		{"unknown session", `{"code":"true","session_id":"01K00000000000000000000000"}`, []string{"session", "create_session"}},
		{"network", `{"code":"true","language":"shell","allowed_domains":["example.com"]}`,
			[]string{"example.com", "what to do: ask a person for it with request_egress"}},
		{"a URL as domain", `{"code":"true","language":"shell","allowed_domains":["https://example.com/x"]}`, []string{"example.com"}},
		{"file outside", `{"code":"true","language":"shell","files":{"../x":"y"}}`, []string{"../x"}},
		{"file of two contents", `{"code":"true","language":"shell","files":{"x":{"text":"a","base64":"YQ"}}}`, []string{`"files"`}},
		{"file of another encoding", `{"code":"true","language":"shell","files":{"x":{"content":"a","encoding":"latin1"}}}`,
			[]string{`"files"`, "encoding"}},
		{"list of files without names", `{"code":"true","language":"shell","files":[{"content":"a"}]}`, []string{`"files"`}},
		{"list of files of one name", `{"code":"true","language":"shell","files":[{"name":"a","text":"a"},{"name":"a","text":"b"}]}`,
			[]string{`"files"`}},
		{"variable with a sign", `{"code":"true","language":"shell","env":{"A=B":"c"}}`, []string{`"env"`, `"A=B"`}},
		{"variable without a name", `{"code":"true","language":"shell","env":{"":"c"}}`, []string{`"env"`}},
		{"file that is not text", `{"code":"true","language":"shell","files":{"x":{"a":1}}}`, []string{`"files"`}},
		{"bad base64", `{"code":"true","language":"shell","files":{"x":"data:;base64,!!!"}}`, []string{`"files"`, "base64"}},
		{"env name", `{"code":"true","language":"shell","env":{"1":"y"}}`, []string{"env"}},
		{"namespace", `{"code":"true","language":"shell","namespace":"a/b"}`, []string{"namespace"}},
		{"backend", `{"code":"true","language":"shell","backend":"podman"}`, []string{"podman"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := p.tool("execute_code", test.arguments)
			checkConforms(t, test.name, schemas["execute_code"], r.Structured)
			refused, _ := r.facts["refused"].(map[string]any)
			if !r.IsError || refused["reason"] == nil || refused["remedy"] == nil || !strings.Contains(r.text, "what to do: ") {
				t.Errorf("got %s", r.Structured)
			}
			contains(t, r.text, test.want...)
			if strings.Contains(r.text, "--") && !strings.Contains(r.text, "--db") {
				t.Errorf("it speaks of flags, which a model does not have: %q", r.text)
			}
		})
	}
}

// TestLongOutput: the answer has head and tail of long output, and a resource with the whole, to be read in parts.
func TestLongOutput(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	res := p.tool("execute_code", `{"code":"for i in range(20000): print('line', i, 'äöü')\nimport sys\nfor i in range(9000): print('err', i, file=sys.stderr)"}`)
	if len(res.text) > 9<<10 {
		t.Errorf("the text has %d bytes", len(res.text))
	}
	contains(t, res.text, "line 0 äöü", "line 19999 äöü", "err 0", "err 8999", "bytes omitted", "get_artifacts")
	uri, _ := res.facts["stdout_uri"].(string)
	var links []string
	for _, c := range res.Content {
		if c.Type == "resource_link" {
			links = append(links, c.URI)
		}
	}
	if len(links) != 2 || links[0] != uri || !strings.HasPrefix(uri, "sandbox://runs/") {
		t.Fatalf("links %q, stdout_uri %q", links, uri)
	}
	var whole strings.Builder
	for offset := 0; ; {
		m := p.call("resources/read", fmt.Sprintf(`{"uri":"%s?offset=%d&length=100001"}`, uri, offset))
		var got struct {
			Contents []struct {
				URI, Text, MIMEType string
				Meta                struct{ Offset, Length, Total, NextOffset int } `json:"_meta"`
			}
		}
		if err := json.Unmarshal(m.Result, &got); err != nil || len(got.Contents) != 1 {
			t.Fatalf("%v: %s", err, m.line)
		}
		c := got.Contents[0]
		whole.WriteString(c.Text)
		if c.Meta.Offset != offset || c.Meta.Length != len(c.Text) || float64(c.Meta.Total) != res.facts["stdout_bytes"] {
			t.Fatalf("got %+v", c.Meta)
		}
		if offset = c.Meta.NextOffset; offset == 0 {
			break
		}
	}
	if strings.Count(whole.String(), "\n") != 20000 || strings.Contains(whole.String(), "\ufffd") {
		t.Errorf("read %d lines", strings.Count(whole.String(), "\n"))
	}
	// The same by get_artifacts, for clients without resources.
	id := res.facts["request_id"].(string)
	part := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"name":"stdout","offset":14,"max_bytes":25}`, id))
	if part.facts["part"] != "line 1 äöü\nline 2 äö" {
		t.Errorf("got %q", part.facts["part"])
	}
	contains(t, part.text, `"offset": `)
}

func TestArtifacts(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	png := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	run := p.tool("execute_code", `{"code":"mkdir -p 'a b'; echo hello > 'a b/c?.txt'; printf '\\000\\001\\377' > raw.bin; base64 -d > dot.png; ln -s /etc/passwd link","language":"shell","stdin":"`+png+`"}`)
	id, _ := run.facts["request_id"].(string)
	contains(t, run.text, "artifacts (get_artifacts", "- a b/c?.txt, 6 bytes", "- dot.png", "- raw.bin, 3 bytes")
	if len(run.Content) != 2 || run.Content[1].Type != "image" || strings.Count(run.text, "dot.png") != 1 {
		t.Errorf("artifacts are named more than once: %s, %+v", run.text, run.Content)
	}
	link := func(name string) string { return answer.FileURI(id, name) }
	m := p.call("resources/read", fmt.Sprintf(`{"uri":%q}`, link("a b/c?.txt")))
	contains(t, m.line, `hello\n`, `"total":6`)
	m = p.call("resources/read", fmt.Sprintf(`{"uri":%q}`, link("raw.bin")))
	contains(t, m.line, `"blob":"AAH/"`)

	get := func(more string) result {
		t.Helper()
		got := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q%s}`, id, more))
		checkConforms(t, more, schemas["get_artifacts"], got.Structured)
		return got
	}
	contains(t, get("").text, "3 files", "raw.bin")
	contains(t, get(`,"name":"a b/c?.txt"`).text, "hello")
	contains(t, get(`,"name":"/workspace/a b/c?.txt"`).text, "hello")
	for more, want := range map[string]string{``: `"files": {"raw.bin": {"request_id"`, `,"encoding":"base64"`: "as base64:\nAAH/"} {
		got := get(`,"name":"raw.bin"` + more)
		contains(t, got.text, want)
		if got.facts["base64"] != "AAH/" || strings.Contains(got.text, "structuredContent") {
			t.Errorf("got %s", got.Structured)
		}
	}
	if got := get(`,"name":"dot.png"`); got.Content[1].Type != "image" || got.Content[1].Data != png {
		t.Errorf("got %+v", got.Content)
	}
	if got := get(`,"name":"raw.bin","offset":4`); !got.IsError || !strings.Contains(got.text, "3 bytes") {
		t.Errorf("got %q", got.text)
	}
	m = p.call("resources/read", fmt.Sprintf(`{"uri":%q}`, link("raw.bin")+"?length=1"))
	contains(t, m.line, `"blob":"AA=="`) // although NUL is valid UTF-8
	if got := get(`,"name":"raw.bn"`); !got.IsError || !strings.Contains(got.text, `"raw.bin"`) {
		t.Errorf("got %q", got.text)
	}
	for _, uri := range []string{"stdout/../../x", "files/../../etc/passwd", "files/%2e%2e/%2e%2e/etc/passwd", "files/link",
		"files//etc/passwd", "nothing"} {
		if m := p.call("resources/read", fmt.Sprintf(`{"uri":"sandbox://runs/%s/%s"}`, id, uri)); m.Error == nil {
			t.Errorf("%s: got %s", uri, m.line)
		}
	}
	if got := p.tool("get_artifacts", `{"request_id":"../../x"}`); !got.IsError {
		t.Errorf("got %q", got.text)
	}
}

// TestProgress: lines arrive as the program prints them, and then keepalives.
func TestProgress(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	_, answer := p.start("tools/call", `{"name":"execute_code","_meta":{"progressToken":"tok"},"arguments":{"language":"shell","code":"for i in $(seq 300); do echo line $i; sleep 0.003; done"}}`)
	p.wait(answer)
	last, n := -1.0, 0
	var line string
	for len(p.notes) > 0 {
		m := <-p.notes
		var got struct {
			ProgressToken string
			Progress      float64
			Message       string
		}
		if err := json.Unmarshal(m.Params, &got); err != nil || m.Method != "notifications/progress" || got.ProgressToken != "tok" ||
			got.Progress <= last {
			t.Errorf("after %v: %s", last, m.line)
		}
		last, line = got.Progress, got.Message
		n++
	}
	if n < 2 || float64(n) > 3+last*11 || line != "line 300" {
		t.Errorf("%d notifications in %.1f s, the last %q", n, last, line)
	}
	// Without a progress token, nothing is sent.
	p.tool("execute_code", `{"language":"shell","code":"echo quiet"}`)
	if len(p.notes) > 0 {
		t.Errorf("got %s", (<-p.notes).line)
	}
}

// sleeper returns a program that sleeps, a check that it runs, and a function that ends it.
func sleeper(t *testing.T) (code string, alive func() bool, wake func()) {
	mark := fmt.Sprintf("%d", 100000000+time.Now().UnixNano()%100000000)
	pids := func() (all []int) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil || len(files) == 0 {
			hosttest.SkipMissing(t, "proc", "there is no /proc to look for processes in")
		}
		for _, file := range files {
			if b, _ := os.ReadFile(file); strings.Contains(string(b), "sleep\x00"+mark) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				all = append(all, pid)
			}
		}
		return all
	}
	return "echo started; sleep " + mark, func() bool { return len(pids()) > 0 }, func() {
		for _, pid := range pids() {
			if p, err := os.FindProcess(pid); err == nil {
				p.Kill()
			}
		}
	}
}

func TestCancelKills(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	code, alive, _ := sleeper(t)
	id, answer := p.start("tools/call", fmt.Sprintf(`{"name":"execute_code","arguments":{"language":"shell","code":%q}}`, code))
	hosttest.Until(t, "it runs", alive)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`, id))
	hosttest.Until(t, "it is gone", func() bool { return !alive() })
	p.call("ping", `{}`)
	if len(answer) > 0 {
		t.Errorf("a cancelled request is answered: %s", (<-answer).line)
	}
}

func TestBackground(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	code, alive, wake := sleeper(t)
	run := p.tool("execute_code", fmt.Sprintf(`{"language":"shell","code":%q,"background":true}`, code+"; echo done > file; echo over"))
	checkConforms(t, "execute_code", schemas["execute_code"], run.Structured)
	id, _ := run.facts["request_id"].(string)
	contains(t, run.text, "inspect_state", id)
	seen := ""
	inspect := func() string {
		inspect := p.tool("inspect_state", fmt.Sprintf(`{"request_id":%q}`, id))
		checkConforms(t, "inspect_state", schemas["inspect_state"], inspect.Structured)
		seen = inspect.text
		return seen
	}
	hosttest.Until(t, "it runs", alive)
	hosttest.Until(t, "it has written", func() bool { return strings.Contains(inspect(), "started") })
	contains(t, seen, "running for", "end of stdout (8 bytes):\nstarted")
	wake()
	hosttest.Until(t, "it is done", func() bool { return strings.HasPrefix(inspect(), "done") })
	contains(t, seen, "done: exit code 0", "over", "- file, 5 bytes")

	code, alive, _ = sleeper(t)
	run = p.tool("execute_code", fmt.Sprintf(`{"language":"shell","code":%q,"background":true,"namespace":"other"}`, code))
	hosttest.Until(t, "it runs", alive)
	contains(t, p.tool("inspect_state", `{}`).text, "2 background runs", "namespace other")
	contains(t, p.tool("inspect_state", `{"namespace":"default"}`).text, "1 background run\n")
	end := p.tool("terminate_session", fmt.Sprintf(`{"session_id":%q}`, run.facts["request_id"]))
	checkConforms(t, "terminate_session", schemas["terminate_session"], end.Structured)
	hosttest.Until(t, "it is gone", func() bool { return !alive() })
	if r := p.tool("inspect_state", `{"request_id":"01K00000000000000000000000"}`); !r.IsError {
		t.Errorf("got %q", r.text)
	}
}

// TestNoNetwork: programs try to connect without network access. The answer lists the refused hosts, however the run
// ends.
func TestNoNetwork(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	session := fmt.Sprint(p.tool("create_session", `{"language":"shell"}`).facts["session_id"])
	const none = "the sandbox has no network, and the program tried to reach "
	for _, test := range []struct{ name, arguments, want string }{
		{"it went well", `{"language":"shell","code":"getent hosts example.com || true"}`,
			"egress to example.com was refused (2 times): no network is allowed here\nwhat to do: request_egress asks a person for example.com"},
		{"its time was up", `{"language":"shell","timeout":3,"code":"(: < /dev/tcp/203.0.113.1/80) 2>/dev/null; sleep 1000"}`, none},
		{"in a session", `{"session_id":"` + session + `","code":"getent hosts example.com; true"}`,
			"the session was created without a network: create another session, with allowed_domains"},
		{"pip in a session", `{"session_id":"` + session + `","code":"getent hosts example.com\nfalse && pip install rich"}`,
			`install_package with packages ["rich"] and language python, with session_id ` + session},
		{"nothing", `{"language":"shell","code":"echo fine"}`, ""},
		{"nothing more in a session", `{"session_id":"` + session + `","code":"echo fine"}`, ""},
	} {
		got := p.tool("execute_code", test.arguments).text
		if contains(t, got, test.want); test.want == "" && strings.Contains(got, "hint:") {
			t.Errorf("%s: got a hint: %s", test.name, got)
		}
	}
}
