package page

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// chromium is a real browser with one page open, by the DevTools protocol over a pipe.
type chromium struct {
	t       testing.TB
	in      *os.File
	session string

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	dialogs int
	faults  []string // what the console has of errors, and of what the policy refused
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct{ Message string }
}

// browse starts a browser that has got in as an identity.
func browse(t testing.TB, s *server, i identity.Identity) *chromium {
	t.Helper()
	c := startChromium(t)
	c.open(s.base + "#" + s.invitation(i))
	c.until("it is in", `!!document.querySelector("header.top") && document.readyState === "complete"`) // so that the script has run
	return c
}

func startChromium(t testing.TB) *chromium {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		hosttest.SkipMissing(t, "chromium", "no chromium in PATH")
	}
	theirIn, in, err := os.Pipe()
	must(t, err)
	out, theirOut, err := os.Pipe()
	must(t, err)
	profile, err := os.MkdirTemp("", "page-chromium-")
	must(t, err)
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update",
		"--disable-sync", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	must(t, cmd.Start())
	theirIn.Close()
	theirOut.Close()
	c := &chromium{t: t, in: in, waiting: map[int]chan message{}}
	read := make(chan struct{})
	go func() { defer close(read); c.read(out) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		hosttest.Until(t, "its files are gone", func() bool { return os.RemoveAll(profile) == nil }) // its helpers die after it
		in.Close()
		out.Close()
		<-read
	})
	var target struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		c.call(domain+".enable", nil, nil)
	}
	return c
}

func (c *chromium) read(out *os.File) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	lines.Split(func(b []byte, end bool) (int, []byte, error) {
		if i := bytes.IndexByte(b, 0); i >= 0 {
			return i + 1, b[:i], nil
		}
		return 0, nil, nil
	})
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		c.mu.Lock()
		if answer := c.waiting[m.ID]; m.ID > 0 && answer != nil {
			delete(c.waiting, m.ID)
			answer <- m
		}
		switch m.Method {
		case "Page.javascriptDialogOpening":
			c.dialogs++
			c.post("Page.handleJavaScriptDialog", map[string]any{"accept": true})
		case "Runtime.exceptionThrown", "Log.entryAdded":
			if text := string(m.Params); m.Method != "Log.entryAdded" || strings.Contains(text, `"level":"error"`) {
				c.faults = append(c.faults, text)
			}
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, answer := range c.waiting {
		delete(c.waiting, id)
		answer <- message{Error: &struct{ Message string }{"the browser has ended"}}
	}
}

// post sends a command. The caller holds the lock.
func (c *chromium) post(method string, params any) int {
	c.next++
	b, _ := json.Marshal(map[string]any{"id": c.next, "method": method, "params": params, "sessionId": c.session})
	if c.session == "" {
		b, _ = json.Marshal(map[string]any{"id": c.next, "method": method, "params": params})
	}
	_, _ = c.in.Write(append(b, 0))
	return c.next
}

// send sends a command, and waits for the answer.
func (c *chromium) send(method string, params any) message {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.waiting[c.post(method, params)] = answer
	c.mu.Unlock()
	return <-answer
}

func (c *chromium) call(method string, params, result any) {
	c.t.Helper()
	m := c.send(method, params)
	if m.Error != nil {
		c.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if result != nil {
		must(c.t, json.Unmarshal(m.Result, result))
	}
}

func (c *chromium) open(url string) {
	c.t.Helper()
	c.call("Page.navigate", map[string]any{"url": url}, nil)
}

// evaluate evaluates an expression, and returns its value as JSON; "" while there is none.
func (c *chromium) evaluate(expression string) string {
	c.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	m := c.send("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.ExceptionDetails != nil { // between two pages
		return ""
	}
	return string(r.Result.Value)
}

func (c *chromium) until(what, expression string) {
	c.t.Helper()
	hosttest.Until(c.t, what, func() bool { return c.evaluate(expression) == "true" })
}

// press presses keys by their names.
func (c *chromium) press(keys ...string) {
	c.t.Helper()
	for _, key := range keys {
		code := map[string]int{"Enter": 13, "Tab": 9, "Escape": 27}[key]
		down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": code}
		switch {
		case key == "Enter":
			down["text"], down["code"] = "\r", "Enter"
		case len(key) == 1:
			down["text"] = key
		}
		c.call("Input.dispatchKeyEvent", down, nil)
		c.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}, nil)
	}
}

// quiet fails where something ran that must not have, or was refused by the policy, which nothing of ours needs.
func (c *chromium) quiet() {
	c.t.Helper()
	if got := c.evaluate(`typeof window.pwned`); got != `"undefined"` {
		c.t.Errorf("a program's text ran: %s", got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialogs > 0 || len(c.faults) > 0 {
		c.t.Errorf("%d dialogs; the console has %s", c.dialogs, fmt.Sprint(c.faults))
	}
}
