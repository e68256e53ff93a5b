package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/status"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestMalformedLines(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	big := strings.Repeat("x", 40<<20)
	ping := `{"jsonrpc":"2.0","id":%s,"method":"ping"}`
	type row struct {
		name, line string
		code       int    // 0 is a result, -1 no response
		id         string // as echoed
	}
	tests := []row{
		{"no JSON", `hello`, -32700, "null"},
		{"half", `{"jsonrpc":"2.0","id":7,"method":"ping"`, -32700, "7"},
		{"two on a line", fmt.Sprintf(ping, "1") + fmt.Sprintf(ping, "2"), -32700, "1"},
		{"NUL", "\x00", -32700, "null"},
		{"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\",\"params\":{\"x\":\"\xff\xfe\"}}", -32700, "8"},
		{"half a surrogate", `{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":"\ud800"}}`, 0, "9"},
		{"deep", deep, -32700, "null"},
		{"deep in a request", `{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"sandbox_stats","arguments":{"a":` + deep + `}}}`,
			-32700, "10"},
		{"deep before the id", `{"method":"tools/call","params":{"name":"x","arguments":{"a":` + deep + `}},"jsonrpc":"2.0","id":11}`, -32700,
			"11"},
		{"batch", `[` + fmt.Sprintf(ping, "1") + `]`, -32600, "null"},
		{"empty batch", `[]`, -32600, "null"},
		{"string", `"ping"`, -32600, "null"},
		{"number", `1e999`, -32600, "null"},
		{"null", `null`, -32600, "null"},
		{"empty object", `{}`, -32600, "null"},
		{"no version", `{"id":1,"method":"ping"}`, -32600, "1"},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "1"},
		{"version as number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, -32600, "1"},
		{"no method", `{"jsonrpc":"2.0","id":1}`, -32600, "1"},
		{"method as number", `{"jsonrpc":"2.0","id":1,"method":7}`, -32600, "1"},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, -32600, "1"},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, -32601, "1"},
		{"id null", fmt.Sprintf(ping, "null"), -32600, "null"},
		{"id true", fmt.Sprintf(ping, "true"), -32600, "null"},
		{"id object", fmt.Sprintf(ping, "{}"), -32600, "null"},
		{"id list", fmt.Sprintf(ping, "[1]"), -32600, "null"},
		{"id huge", fmt.Sprintf(ping, "123456789012345678901234567890"), 0, "123456789012345678901234567890"},
		{"id beyond float64", fmt.Sprintf(ping, "1e999"), 0, "1e999"},
		{"id beyond 2^53", fmt.Sprintf(ping, "9007199254740993"), 0, "9007199254740993"},
		{"id negative", fmt.Sprintf(ping, "-1"), 0, "-1"},
		{"id fraction", fmt.Sprintf(ping, "1.5"), 0, "1.5"},
		{"id empty string", fmt.Sprintf(ping, `""`), 0, `""`},
		{"id string", fmt.Sprintf(ping, `"a\u0041 b"`), 0, `"a\u0041 b"`},
		{"id long", fmt.Sprintf(ping, `"`+strings.Repeat("a", 100000)+`"`), 0, `"` + strings.Repeat("a", 100000) + `"`},
		{"params list", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, -32602, "1"},
		{"params string", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"x"}`, -32602, "1"},
		{"params null", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, 0, "1"},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, -32602, "1"},
		{"unknown tool", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}`, -32602, "1"},
		{"tool name as number", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, -32602, "1"},
		// no tool accepts it; the model gets the error
		{"number beyond float64", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sandbox_stats","arguments":{"x":1e999}}}`, 0,
			"1"},
		{"number below float64", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"code":"1","timeout":-1e999}}}`, 0, "1"},
		{"meta as string", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sandbox_stats","_meta":"x"}}`, -32602, "1"},
		{"a bad cursor", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"%%"}}`, -32602, "1"},
		{"a bad level", `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}`, -32602, "1"},
		{"no such resource", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"sandbox://runs/01K00000000000000000000000/stdout"}}`, -32002, "1"},
		{"no resource", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`, -32002, "1"},
		{"a bad range", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"sandbox://runs/01K00000000000000000000000/stdout?offset=-1"}}`, -32602, "1"},
		{"a task of the old protocol", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x"}}`, -32601, "1"},
		{"members twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"x","method":"ping"}`, 0, "2"},
		{"too long", `{"jsonrpc":"2.0","id":12,"method":"ping","params":{"x":"` + big + `"}}`, -32600, "12"},
		{"too long, id last", `{"method":"ping","params":{"x":"` + big + `"},"jsonrpc":"2.0","id":"a-13"}`, -32600, `"a-13"`},
		{"too long, no JSON", big + big, -32600, "null"},
		{"empty", ``, -1, ""},
		{"blanks", "  \t ", -1, ""},
		{"CRLF", fmt.Sprintf(ping, "14") + "\r", 0, "14"},
		{"byte order mark", "\ufeff" + fmt.Sprintf(ping, "15"), 0, "15"},
		{"unknown notification", `{"jsonrpc":"2.0","method":"notifications/no/such"}`, -1, ""},
		{"request without id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"execute_code","arguments":{"code":"1"}}}`, -1, ""},
		{"cancelled, unknown", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, -1, ""},
		{"cancelled, nothing", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, -1, ""},
		{"answer to nothing", `{"jsonrpc":"2.0","id":77,"result":{}}`, -1, ""},
		{"error to nothing", `{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"x"}}`, -1, ""},
		{"answer without id", `{"jsonrpc":"2.0","result":{}}`, -1, ""},
		{"cancelled, an object", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, -1, ""},
		{"cancelled, a list", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}`, -32602, "null"},
		{"version in capitals", `{"JSONRPC":"1.0","id":1,"method":"ping"}`, -32600, "1"},
		{"NUL in an id", fmt.Sprintf(ping, `"\u0000"`), 0, `"\u0000"`},
		{"a comment", `{"jsonrpc":"2.0","id":1,"method":"ping"} // ping`, -32700, "1"},
		{"NaN", `{"jsonrpc":"2.0","id":NaN,"method":"ping"}`, -32700, "null"},
		{"an id that goes on", `{"jsonrpc":"2.0","id":7`, -32700, "null"},
		{"hexadecimal", `{"jsonrpc":"2.0","id":0x10,"method":"ping"}`, -32700, "null"},
	}
	long := strings.Repeat("x", 1<<20)
	for _, of := range []struct {
		method string
		code   int
		params []string
	}{
		{`ping\u0000`, -32601, []string{`{}`}},
		{`\uff50ing`, -32601, []string{`{}`}},
		{"PING", -32601, []string{`{}`}},
		{long, -32601, []string{`{}`}},
		{"initialize", -32602, []string{`{}`, `{"protocolVersion":7}`, `{"protocolVersion":null}`,
			`{"protocolVersion":"2025-11-25","capabilities":7}`, `{"protocolVersion":"2025-11-25","clientInfo":[]}`}},
		{"tools/list", -32602, []string{`{"cursor":7}`, `{"cursor":{}}`, `{"_meta":[]}`}},
		{"tools/call", -32602, []string{`{}`, `{"name":null}`, `{"name":""}`, `{"name":["ping"]}`, `{"name":"` + long + `"}`,
			`{"name":"execute_code\u0000"}`}},
		{"resources/list", -32602, []string{`{"cursor":7}`, `{"cursor":[]}`, `{"cursor":"%%"}`, `{"cursor":"bm9uZQ=="}`}},
		{"resources/templates/list", -32602, []string{`{"cursor":7}`, `{"cursor":"%%"}`}},
		{"resources/read", -32602, []string{`{"uri":7}`, `{"uri":["x"]}`, `{"uri":{}}`,
			`{"uri":"sandbox://runs/01K00000000000000000000000/stdout?offset=NaN"}`,
			`{"uri":"sandbox://runs/01K00000000000000000000000/stdout?length=0"}`,
			`{"uri":"sandbox://runs/01K00000000000000000000000/stdout?length=99999999999999999999"}`}},
		{"resources/read", -32002, []string{`{}`, `{"uri":null}`, `{"uri":""}`, `{"uri":"` + long + `"}`,
			`{"uri":"sandbox://runs/../../etc/passwd"}`, `{"uri":"\u0000"}`, `{"uri":"http://127.0.0.1/"}`}},
		{"resources/subscribe", -32601, []string{`{"uri":"x"}`, `{}`}},
		{"resources/unsubscribe", -32601, []string{`{"uri":"x"}`}},
		{"prompts/list", -32601, []string{`{}`, `{"cursor":7}`}},
		{"prompts/get", -32601, []string{`{"name":"x"}`, `{}`}},
		{"completion/complete", -32601, []string{`{"ref":7}`, `{}`}},
		{"logging/setLevel", -32602, []string{`{}`, `{"level":7}`, `{"level":null}`, `{"level":""}`, `{"level":["info"]}`}},
		{"server/discover", -32602, []string{`{}`}},
		{"subscriptions/listen", -32601, []string{`{}`, `{"notifications":7}`}},
		{"sampling/createMessage", -32601, []string{`{}`}},
		{"roots/list", -32601, []string{`{}`}},
	} {
		for _, params := range of.params {
			tests = append(tests, row{fmt.Sprintf("%.40s %.60s", of.method, params),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":16,"method":"%s","params":%s}`, of.method, params), of.code, "16"})
		}
	}
	if len(tests) < 126 {
		t.Errorf("%d malformed calls", len(tests))
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p.write(test.line)
			if test.code != -1 {
				got := p.wait(p.unexpected)
				code := 0
				if got.Error != nil {
					code = got.Error.Code
				}
				if got.Error != nil && (len(got.Error.Message) < 10 || len(got.Error.Message) > 4000) {
					t.Errorf("the error has %d bytes: %.300s", len(got.Error.Message), got.Error.Message)
				}
				if code != test.code || string(got.ID) != test.id {
					t.Errorf("got code %d, id %.100s in %.300s; want %d, %.100s", code, got.ID, got.line, test.code, test.id)
				}
			}
			if m := p.call("ping", `{}`); m.Error != nil || len(p.unexpected) > 0 {
				t.Errorf("ping afterwards: %v, %d more answers", m.Error, len(p.unexpected))
			}
		})
	}
}

func TestBeforeInitialize(t *testing.T) {
	r := newRig(t, nil)
	p := r.connect()
	for _, method := range []string{"tools/list", "tools/call", "resources/list", "no/such"} {
		if m := p.call(method, `{}`); m.Error == nil || m.Error.Code != -32600 || !strings.Contains(m.Error.Message, "initialize") {
			t.Errorf("%s: got %s", method, m.line)
		}
	}
	if m := p.call("ping", `{}`); m.Error != nil {
		t.Errorf("ping: got %s", m.line)
	}
	// A request sent right after initialize, without waiting, finds it done.
	_, first := p.start("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	_, second := p.start("tools/list", `{}`)
	if m := p.wait(first); m.Error != nil {
		t.Fatal(m.line)
	}
	if m := p.wait(second); m.Error != nil {
		t.Error(m.line)
	}
}

func TestProtocolVersions(t *testing.T) {
	r := newRig(t, nil)
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "next": "2025-11-25",
	} {
		p := r.connect()
		got := p.initialize(asked, `{}`)
		var result struct {
			ProtocolVersion, Instructions string
			Capabilities                  map[string]any
			ServerInfo                    struct{ Name, Version string }
		}
		if err := json.Unmarshal(got.Result, &result); err != nil {
			t.Fatal(err)
		}
		if result.ProtocolVersion != want || result.ServerInfo.Name != "sandboxmcp" || result.ServerInfo.Version != "test" ||
			len(result.Instructions) < 100 {
			t.Errorf("%s: got %+v", asked, result)
		}
		for _, c := range []string{"tools", "resources", "logging"} {
			if result.Capabilities[c] == nil {
				t.Errorf("%s: no capability %s", asked, c)
			}
		}
		if r := p.tool("sandbox_stats", `{}`); r.IsError {
			t.Errorf("%s: %s", asked, r.text)
		}
	}
}

func TestDuplicateID(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	code, alive, wake := sleeper(t)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"execute_code","arguments":{"language":"shell","code":%q}}}`, code+"; echo first"))
	hosttest.Until(t, "it runs", alive)
	p.write(`{"jsonrpc":"2.0","id":"x","method":"ping"}`)
	if m := p.wait(p.unexpected); m.Error == nil || m.Error.Code != -32600 || !strings.Contains(m.Error.Message, "already running") {
		t.Errorf("got %s", m.line)
	}
	wake()
	if m := p.wait(p.unexpected); m.Error != nil || !strings.Contains(m.line, "first") {
		t.Errorf("got %s", m.line)
	}
	p.write(`{"jsonrpc":"2.0","id":"x","method":"ping"}`)
	if m := p.wait(p.unexpected); m.Error != nil {
		t.Errorf("an id may come again when it is answered: got %s", m.line)
	}
}

// TestNoNewlineAtTheEnd sends everything at once, without a final newline.
func TestNoNewlineAtTheEnd(t *testing.T) {
	r := newRig(t, nil)
	r.s.CallGrace = time.Hour
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":{"language":"shell","code":"echo $((6*7))"}}}
{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	var out bytes.Buffer
	if err := r.s.Serve(t.Context(), in, &out); err != nil {
		t.Fatal(err)
	}
	contains(t, out.String(), `"id":1,`, `"id":3,`, `42`)
}

// TestClientGone closes stdout, or ends stdin, while a call runs: Serve returns without an error.
func TestClientGone(t *testing.T) {
	for _, how := range []string{"stdout", "stdin"} {
		r := newRig(t, nil)
		r.s.CallGrace = time.Millisecond
		fromClient, in := io.Pipe()
		out, toClient := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- r.s.Serve(t.Context(), fromClient, toClient) }()
		p := newPeer(t, in, out)
		p.initialize("2025-11-25", `{}`)
		p.start("tools/call", `{"name":"execute_code","arguments":{"language":"shell","code":"sleep 600"}}`)
		hosttest.Until(t, "it runs", func() bool { return status.Now(r.cfg.Pipeline).Running == 1 })
		if how == "stdin" {
			in.Close()
		} else {
			out.CloseWithError(errors.New("broken pipe"))
			p.start("ping", `{}`)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", how, err)
		}
		if n := status.Now(r.cfg.Pipeline); n.Running != 0 {
			t.Errorf("%s: %d slots are taken", how, n.Running)
		}
	}
}

// TestClientDoesNotRead fills the pipe to a client that does not read, and ends.
func TestClientDoesNotRead(t *testing.T) {
	r := newRig(t, nil)
	r.s.CallGrace, r.s.WriteGrace = time.Millisecond, time.Millisecond
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	defer out.Close()
	done := make(chan error, 1)
	go func() { done <- r.s.Serve(t.Context(), fromClient, toClient) }()
	io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n")
	bufio.NewReader(io.LimitReader(out, 10)).ReadString('\n')
	go func() {
		for i := range 100 {
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i+10)
		}
		in.Close()
	}()
	<-done
}

// TestNobodyReadsFaults sends invalid messages, which the reading loop answers, from a client that does not read.
func TestNobodyReadsFaults(t *testing.T) {
	r := newRig(t, nil)
	r.s.WriteGrace = time.Millisecond
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	defer out.Close()
	defer in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.s.Serve(ctx, fromClient, toClient) }()
	for range 2 { // the first is being written by then, and the second waits for it
		io.WriteString(in, "garbage\n")
	}
	cancel()
	<-done
}

// TestManyCalls makes many calls, 20 at a time, while pings are answered.
func TestManyCalls(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	slots := make(chan struct{}, 20)
	var all sync.WaitGroup
	for i := range hosttest.Rounds(60, 500) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			_, answer := p.start("tools/call", fmt.Sprintf(`{"name":"execute_code","arguments":{"language":"shell","code":"echo n-%d","env":{"N":"%d"}}}`, i, i))
			m := <-answer
			if m.Error != nil || !strings.Contains(m.line, fmt.Sprintf(`n-%d`, i)) {
				t.Errorf("call %d: %.500s", i, m.line)
			}
		})
		if i%50 == 0 {
			if m := p.call("ping", `{}`); m.Error != nil {
				t.Errorf("ping: %v", m.Error)
			}
		}
	}
	all.Wait()
}

// TestPingWhileAllRun runs 500 calls concurrently: there is no small pool of workers.
func TestPingWhileAllRun(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	ids := []string{}
	for range 500 {
		id, _ := p.start("tools/call", `{"name":"execute_code","arguments":{"language":"shell","code":"sleep 10000","timeout":3600}}`)
		ids = append(ids, id)
	}
	p.call("ping", `{}`) // fails if it waits for the calls
	for _, id := range ids {
		p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	}
	hosttest.Until(t, "none runs or waits after all were cancelled", func() bool {
		n := status.Now(r.cfg.Pipeline)
		return n.Running == 0 && n.Waiting == 0
	})
	if m := p.call("ping", `{}`); m.Error != nil {
		t.Error(m.line)
	}
}
