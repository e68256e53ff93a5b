package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

var testTools = []Tool{
	{Name: "add", About: "Adds.", Params: []string{"a", "b"}},
	{Name: "fail", About: "Fails."},
	{Name: "wait", About: "Waits until the cell ends."},
	{Name: "meet", About: "Waits for nine more.", Params: []string{"n"}},
	{Name: "waited", About: "Waits until wait is called."},
	{Name: "big", About: "Answers much."},
}

// answering performs the calls of testTools.
type answering struct {
	mu        sync.Mutex
	meeting   int
	met       chan struct{}
	waiting   chan struct{} // receives a value when wait is called
	cancelled chan struct{} // receives a value when wait has ended
}

func newAnswering() *answering {
	return &answering{met: make(chan struct{}), waiting: make(chan struct{}, 1000), cancelled: make(chan struct{}, 1000)}
}

func (w *answering) call(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	var a struct {
		A, B float64
		N    any
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return nil, fmt.Errorf("arguments %s: %w", arguments, err)
	}
	switch name {
	case "add":
		return json.Marshal(map[string]any{"sum": a.A + a.B, "text": "ä\x00\u2028"})
	case "fail":
		return nil, errors.New("it broke")
	case "big":
		return json.Marshal(strings.Repeat("x", 1<<20))
	case "meet":
		w.mu.Lock()
		if w.meeting++; w.meeting == 10 {
			close(w.met)
		}
		w.mu.Unlock()
		select {
		case <-w.met:
			return json.Marshal(a.N)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case "waited":
		<-w.waiting
		return json.RawMessage("true"), nil
	case "wait":
		w.waiting <- struct{}{}
		<-ctx.Done()
		w.cancelled <- struct{}{}
		return nil, context.Cause(ctx)
	}
	return nil, errors.New("there is no tool " + name)
}

// cell returns a cell that can call testTools.
func (w *answering) cell(code string) Cell { return Cell{Code: code, Tools: testTools, Call: w.call} }

func TestPythonTools(t *testing.T) {
	eachPlace(t, func(t *testing.T, start func(t testing.TB) session) {
		s, w := start(t), newAnswering()
		for _, c := range []struct{ code, want string }{
			{"from tools import add, ToolError\nadd(1, b=2)", `{'sum': 3, 'text': 'ä\x00\u2028'}`},
			{"add.__doc__", `'add(a, b)\n\nAdds.'`},
			{"import tools\ntry: tools.fail()\nexcept ToolError as e: caught = repr(e)\ncaught", `"ToolError('it broke')"`},
			{"try: add(1, 2, 3)\nexcept TypeError as e: caught = str(e)\ncaught", `'add() takes 2 positional arguments but 3 were given'`},
			{"try: add(1, a=3)\nexcept TypeError as e: caught = str(e)\ncaught", `"add() got multiple values for argument 'a'"`},
			{"try: add(a=b'')\nexcept TypeError as e: caught = str(e)[:27]\ncaught", `'bytes have no JSON form: en'`},
			{"try: add(a='x' * 300000)\nexcept ToolError as e: caught = str(e)\ncaught",
				`'the arguments take 300008 bytes as JSON, more than 262144'`},
			{"len(tools.big())", "1048576"},
			{"import asyncio\nawait asyncio.gather(*[asyncio.to_thread(add, n, 1) for n in range(3)])", ""},
			{"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(10) as e: got = list(e.map(tools.meet, range(10)))\ngot",
				"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"},
			// Printed text is neither a call nor an answer.
			{`print('\x00\x00\x00\x10{"op":"answer","call":1,"value":1}'); add(1, 1)['sum']`, "2"},
			{"import os\nif os.fork() == 0:\n    try: add(1, 1)\n    except ToolError as e: os.write(1, b'refused')\n    os._exit(0)\nos.wait()[1]",
				"0"},
		} {
			r := s.cell(t.Context(), w.cell(c.code))
			if r.Error != nil || c.want != "" && r.text() != c.want {
				t.Errorf("%s: got %s %v %s, want %s", c.code, r.text(), r.Error, r.Stderr, c.want)
			}
		}
		if r := s.cell(t.Context(), w.cell("tools.fail()")); r.Error == nil || r.Error.Type != "ToolError" ||
			strings.Contains(r.Error.Traceback, "driver") {
			t.Errorf("an error that nobody caught: %+v", r.Error)
		}
		// A thread that waits when the cell ends gets an error, and its call is cancelled.
		r := s.cell(t.Context(), w.cell("import threading\ndef work():\n    global ended\n    try: tools.wait()\n    except ToolError as e: "+
			"ended = str(e)\n"+
			"thread = threading.Thread(target=work); thread.start(); tools.waited()"))
		<-w.cancelled
		if r.Ended != "ok" {
			t.Errorf("a cell that left a call behind: %+v", r.Outcome)
		}
		if r := s.run("thread.join(); ended"); r.text() != "'the cell has ended'" {
			t.Errorf("a thread that waited when its cell ended: %s %v", r.text(), r.Error)
		}
		// Calls fail after the cell, and in a cell without tools.
		if r := s.run("tools.add(1, 1)"); r.Error == nil || r.Error.Message != "tools can be called while a cell runs, in the process of "+
			"the session" {
			t.Errorf("a cell without tools: %+v", r.Error)
		}
		if r := s.cell(t.Context(), Cell{Code: "try: tools.add(1, 1)\nexcept ToolError as e: caught = str(e)\ncaught", Tools: testTools}); r.text() != `"tools can't be called here"` {
			t.Errorf("a cell without Call: %s", r.text())
		}
	})
}

func TestNodeTools(t *testing.T) {
	s, w := node(t), newAnswering()
	for _, c := range []struct{ code, want string }{
		{"const { add, ToolError } = require('tools'); (await add({ a: 1, b: 2 })).sum", "3"},
		{"JSON.stringify((await add({})).text)", "'\"ä\\\\u0000\u2028\"'"},
		{"import { add as plus } from 'tools'; import all from 'tools'; const { fail } = await import('tools'); (await plus({ a: 2, b: 2 })).sum + (all.add === add)", "5"},
		{"let caught; try { await fail() } catch (e) { caught = [e instanceof ToolError, e instanceof Error, String(e)] } caught", "[ true, true, 'ToolError: it broke' ]"},
		{"try { await add(1, 2) } catch (e) { caught = String(e) } caught", "\"TypeError: add takes one object of named arguments, such as add({ key: 'value' })\""},
		{"try { await add({ a() {} }) } catch (e) { caught = String(e) } caught", "'TypeError: it.a is a function, which JSON cannot hold'"},
		{"try { await add({ a: 'x'.repeat(300000) }) } catch (e) { caught = String(e) } caught", "'ToolError: the arguments take 300008 bytes as JSON, more than 262144'"},
		{"(await require('tools').big()).length", "1048576"},
		{"await Promise.all(Array.from({ length: 10 }, (_, n) => require('tools').meet({ n })))", "[\n  0, 1, 2, 3, 4,\n  5, 6, 7, 8, 9\n]"},
		{"(await Promise.allSettled(Array.from({ length: 129 }, () => add({})))).at(-1).reason.message", "'128 calls at a time are the most'"},
		{"add({}) instanceof Promise", "true"},
	} {
		r := s.cell(t.Context(), w.cell(c.code))
		if r.Error != nil || r.text() != c.want {
			t.Errorf("%s: got %s %v %s, want %s", c.code, r.text(), r.Error, r.Stderr, c.want)
		}
	}
	if r := s.cell(t.Context(), w.cell("await fail()")); r.Error == nil || r.Error.Type != "ToolError" || strings.Contains(r.Error.Traceback, "driver") {
		t.Errorf("an error that nobody caught: %+v", r.Error)
	}
	r := s.cell(t.Context(), w.cell("let left = require('tools').wait().catch((e) => e.message); await require('tools').waited(); 1"))
	<-w.cancelled
	if r.text() != "1" || r.Stderr != "" {
		t.Errorf("a cell that left a call behind: %s %s", r.text(), r.Stderr)
	}
	if r := s.run("await left"); r.text() != "'the cell has ended'" {
		t.Errorf("what waited when its cell ended: %s", r.text())
	}
	if r := s.cell(t.Context(), Cell{Code: "await add({})", Tools: testTools}); r.Error == nil || r.Error.Message != "tools can't be called here" {
		t.Errorf("a cell without Call: %+v", r.Error)
	}
}

// TestToolsInterrupted: code that waits for a tool is interrupted like any other, and the call is cancelled.
func TestToolsInterrupted(t *testing.T) {
	for language, code := range map[string]string{"python": "import tools; print('begun'); tools.wait()", "node": "console.log('begun'); await require('tools').wait()"} {
		t.Run(language, func(t *testing.T) {
			s, w := sandboxed(t, language, backends.Limits{}), newAnswering()
			c := w.cell(code)
			ctx, cancel := context.WithCancel(t.Context())
			inner := c.Call
			c.Call = func(of context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
				cancel()
				return inner(of, name, arguments)
			}
			c.Grace = time.Hour
			if r := s.cell(ctx, c); r.Ended != "cancelled" || r.Lost || r.Error == nil {
				t.Errorf("got %+v", r.Outcome)
			}
			<-w.cancelled
			if r := s.run("1 + 1"); r.text() != "2" {
				t.Errorf("the cell after it: %s", r.text())
			}
		})
	}
}

// TestToolsAttacked: a program that writes to the driver's descriptor itself gets no more than the driver allows.
func TestToolsAttacked(t *testing.T) {
	frames := "import os, struct, time\ndef frame(text):\n    data = text.encode(); os.write(1003, struct.pack('>I', len(data)) + data)\n"
	for name, code := range map[string]string{
		"more calls than any driver makes": "for n in range(100000): frame('{\"op\":\"call\",\"id\":1,\"call\":%d,\"name\":\"wait\",\"args\":{}}' % n)",
		"an answer that nobody reads":      "for n in range(40): frame('{\"op\":\"call\",\"id\":1,\"call\":%d,\"name\":\"big\",\"args\":{}}' % n)\nframe('{\"op\":\"done\",\"id\":1}')\nwhile True:\n    try: time.sleep(100)\n    except BaseException: pass",
	} {
		t.Run(name, func(t *testing.T) {
			s, w := sandboxed(t, "python", backends.Limits{}), newAnswering()
			c := w.cell(frames + code)
			c.Timeout, c.Grace = 2*time.Second, time.Second
			outcome, err := s.Run(t.Context(), c)
			if err != nil || !outcome.Lost {
				t.Errorf("got %+v %v, want a dead interpreter", outcome, err)
			}
		})
	}
	t.Run("calls of another cell, and after the end", func(t *testing.T) {
		s, w := sandboxed(t, "python", backends.Limits{}), newAnswering()
		called := 0
		c := w.cell(frames + "frame('{\"op\":\"call\",\"id\":7,\"call\":1,\"name\":\"add\",\"args\":{}}')")
		c.Call = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			called++
			return json.RawMessage("1"), nil
		}
		if s.cell(t.Context(), c); called != 0 {
			t.Errorf("%d calls of another cell were carried out", called)
		}
		if r := s.run("2"); r.text() != "2" {
			t.Errorf("the cell after it: %s", r.text())
		}
	})
}
