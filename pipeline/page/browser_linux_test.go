package page

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// connects is a program that goes on once somebody has answered whether it may reach a name.
const connects = `
import socket
for name in ("%s",):
    s = socket.create_connection((name, 443), timeout=300)
    try:
        s.sendall(b"x")
        print("answered", name, len(s.recv(10)))
    except Exception as e:
        print("answered", name)
`

// startRun runs code of an agent, and returns its run once its program is under way.
func (s *server) startRun(language, code string) (run string, wait func() pipeline.Outcome) {
	s.t.Helper()
	ended := make(chan pipeline.Outcome, 1)
	go func() { ended <- s.ran("team", language, code) }()
	hosttest.Until(s.t, "it runs", func() bool {
		for _, r := range s.pipe.ListRunning("team") {
			if r.Program {
				run = r.Run
			}
		}
		return run != ""
	})
	return run, func() pipeline.Outcome { return <-ended }
}

// TestAnswerWhileAnAgentWaits: a person sees a question come up, with the code that asks, and answers it: by the mouse,
// and by keys alone.
func TestAnswerWhileAnAgentWaits(t *testing.T) {
	s := serve(t)
	c := browse(t, s, boss)
	for name, answer := range map[string]struct {
		do      func()
		allowed bool
	}{
		"approve by a click": {func() { c.evaluate(`document.querySelector(".ask .yes").click()`) }, true},
		"deny by a click":    {func() { c.evaluate(`document.querySelector(".ask .no").click()`) }, false},
		"approve by keys":    {func() { c.press("a", "Enter") }, true},
		"deny by keys":       {func() { c.press("d", "Enter") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := strings.ReplaceAll(name, " ", "-") + ".example"
			_, wait := s.startRun("python", "import os # "+name+"\nos.system('rm -rf /nothing')\n"+fmt.Sprintf(connects, host))
			c.until("the question is there", `document.querySelector(".ask .what")?.textContent === `+strconv.Quote(host))
			c.until("its dangerous line is marked", `!!document.querySelector(".ask tr.danger")`)
			c.until("the title says so", `document.title.startsWith("(1) ")`)
			c.evaluate(`new Promise(r => setTimeout(r, 800))`) // what the page itself waits for, so that nobody answers what they have not seen
			answer.do()
			c.until("the question is gone", `!document.querySelector(".ask")`)
			res := wait()
			if len(res.Egress) == 0 || res.Egress[len(res.Egress)-1].Allowed != answer.allowed {
				t.Errorf("got %+v %s", res.Egress, res.Stderr)
			}
			kind, rows := map[bool]string{true: "egress.approved", false: "egress.denied"}[answer.allowed], 0
			for row, err := range s.log.Rows(t.Context(), audit.Filter{Kinds: []string{kind},
				Contains: []string{host, `"by":"page"`, `"user":"peer:ada"`}}) {
				must(t, err)
				rows += len(row.Kind) / len(kind)
			}
			if rows != 1 {
				t.Errorf("%d rows say that it was %s on the page", rows, kind)
			}
		})
	}
	c.quiet()
}

// TestNextQuestion: a click on the answer to one question does not answer the question that takes its place.
func TestNextQuestion(t *testing.T) {
	s := serve(t)
	c := browse(t, s, boss)
	first, err := s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: "first", Namespace: "team"})
	must(t, err)
	_, err = s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: "second", Namespace: "team"})
	must(t, err)
	c.until("both are there", `document.querySelectorAll(".ask").length === 2`)
	c.evaluate(`addEventListener("x", () => {}); new MutationObserver(() => { if (document.querySelector(".ask .what")?.textContent === "second") document.querySelector(".ask .yes")?.click(); }).observe(document.querySelector("#asking"), {childList: true, subtree: true})`)
	must(t, s.broker.Answer(t.Context(), first.Question.ID, approval.Answer{By: approval.CommandLine(), User: "other"}))
	c.until("the person is told to look first", `document.querySelector("#status").textContent.length > 0`)
	if len(s.broker.Pending()) != 1 {
		t.Error("the second was answered by a click that was meant for the first")
	}
}

// TestLiveOutput: the page shows a program's output while it runs, in colour, and a kill from the page ends it.
func TestLiveOutput(t *testing.T) {
	s := serve(t)
	c := browse(t, s, boss)
	_, wait := s.startRun("shell", `printf '\033[31mred\033[0m plain\n'; echo two >&2; while :; do sleep 0.05; done`)
	c.until("the run is entry with what it uses", `!!document.querySelector("#running .live meter")`)
	c.evaluate(`document.querySelector("[data-watch]").click()`)
	c.until("its output is there", `document.querySelector("#watch .pane").textContent.includes("red plain")`)
	c.until("in colour", `document.querySelector("#watch .pane .f2")?.textContent === "red"`)
	c.until("stderr, too", `document.querySelector("#watch .pane .err")?.textContent.includes("two")`)
	c.evaluate(`document.querySelector("#running form[data-sure] button").click()`) // and the dialog that asks once more is accepted
	if res := wait(); res.Ended != "cancelled" {
		t.Errorf("got %+v", res)
	}
	c.until("it is over", `!document.querySelector("#running .live")`)
	if c.dialogs != 1 {
		t.Errorf("%d dialogs", c.dialogs)
	}
}

// TestDelay measures how long a line of output takes to the browser. It is not bounded: the machine may be busy.
func TestDelay(t *testing.T) {
	s := serve(t)
	c := browse(t, s, boss)
	run, wait := s.startRun("python", "import time\nfor i in range(20):\n    print(f'at {time.time():.6f}', flush=True)\n  "+
		"  time.sleep(0.2)\n")
	room := c.evaluate(`location.pathname`)
	c.evaluate(`(() => { window.late = []; const s = new EventSource("output?id=` + run +
		`"); s.addEventListener("said", e => { const now = performance.timeOrigin + performance.now(); for (const x of JSON.parse(e.data).spans || []) for (const m of x.t.matchAll(/at (\d+\.\d+)/g)) window.late.push(now - 1000 * m[1]); }); s.addEventListener("over", () => s.close()); })()`)
	wait()
	c.until("all lines are there", `window.late.length >= 15`)
	t.Logf("%s: median delay %s ms, the longest %s ms", room,
		c.evaluate(`window.late.slice(3).sort((a, b) => a - b)[Math.floor((window.late.length - 3) / 2)].toFixed(1)`),
		c.evaluate(`Math.max(...window.late.slice(3)).toFixed(1)`))
}

// TestHostileOutput: a program's text does nothing in a real browser, live and afterwards, however long it is.
func TestHostileOutput(t *testing.T) {
	s := serve(t)
	c := browse(t, s, boss)
	run, wait := s.startRun("python", `
import time
evil = "<script>pwned=1</script><img src=x onerror='pwned=1'><svg onload='pwned=1'></svg><style>*{display:none}</style></pre></div><b>bold</b>\u202e\x1b]8;;javascript:pwned=1\x07link\x1b]8;;\x07\x1b[2J"
print(evil)
open("<img src=x onerror='pwned=1'>.html", "w").write("<script>pwned=1</script>")
print("z" * (10 << 20))
print("\r".join("progress %d" % i for i in range(1000)))
print("the end", flush=True)
while True: time.sleep(0.1)
`)
	c.evaluate(`location.href = "run?id=` + run + `"`)
	c.until("the end is there", `document.querySelector(".pane")?.textContent.includes("the end")`)
	if n, _ := strconv.Atoi(c.evaluate(`document.querySelector(".pane").textContent.length`)); n > 1<<20 {
		t.Errorf("%d characters in the page", n)
	}
	for _, what := range []string{"script", "img", "svg", "style", "b", "a"} {
		if got := c.evaluate(`document.querySelectorAll(".pane ` + what + `").length`); got != "0" {
			t.Errorf("a program's text became %s of %s", got, what)
		}
	}
	_, _, err := pipeline.Do(t.Context(), s.pipe, pipeline.Interrupt{Namespace: "team", Run: run, Kill: true})
	must(t, err)
	res := wait()
	c.until("its story is there", `!!document.querySelector("#verify")`)
	c.evaluate(`document.querySelector("#verify").click()`)
	c.until("receipt and inclusion hold", `document.querySelectorAll("#verdict .good").length === 6 && !document.querySelector("#verdict .bad")`)
	if got := c.evaluate(`document.querySelectorAll("main img, main b, main script, main style").length`); got != "0" {
		t.Errorf("its story has %s elements of its own: %+v", got, res)
	}
	c.quiet()
}

// TestVerifyFails: evidence that does not verify is not called right.
func TestVerifyFails(t *testing.T) {
	s := serve(t)
	res, other := s.ran("team", "shell", "echo one"), s.ran("team", "shell", "echo two")
	c := browse(t, s, boss)
	verdict := c.evaluate(`(async () => {
		const {check} = await import("./verify.js");
		const get = async id => await (await fetch("evidence?id=" + id)).json();
		const run = async (change, pem) => {
			const e = await get("` + res.ID + `"), o = await get("` + other.ID + `");
			change(e, o);
			const said = [];
			try { await check(e, pem || "", (t, bad) => said.push(bad), {}); } catch (err) { return err.message; }
			return said.includes(true) ? "bad" : said.length === 6 ? "good" : "short";
		};
		const own = btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.exportKey("spki", (await crypto.subtle.generateKey("Ed25519", true, ["verify", "sign"])).publicKey))));
		return [
			await run(() => {}),
			await run((e, o) => { e.receipt = o.receipt; }),
			await run((e, o) => { e.proof = o.proof; }),
			await run(e => { e.receipt = e.receipt.slice(0, 40) + (e.receipt[40] === "A" ? "B" : "A") + e.receipt.slice(41); }),
			await run(e => { const l = e.proof.split("\n"); l[1] = "extra " + btoa(atob(l[1].slice(6)).replace('"team"', '"tean"')); e.proof = l.join("\n"); }),
			await run(e => { const l = e.proof.split("\n"); l[3] = btoa("x".repeat(32)); e.proof = l.join("\n"); }),
			await run(e => { e.proof = e.proof.replace(/\u2014 (\S+) (\S{10})./, (m, a, b) => "\u2014 " + a + " " + b + (m.endsWith("A") ? "B" : "A")); }),
			await run(e => { e.keys.forEach(k => k.until = "2000-01-01T00:00:00Z"); }),
			await run(() => {}, "-----BEGIN PUBLIC KEY-----\n" + own + "\n-----END PUBLIC KEY-----"),
			await run(e => { e.keys = []; }),
		].map((v, i) => (i === 0) === (v === "good") ? "" : i + ": " + v).filter(Boolean).join("; ");
	})()`)
	if verdict != `""` {
		t.Errorf("got %s", verdict)
	}
}

// TestFramedNowhere: no page of another origin shows ours in a frame, has it answer anything, or reads it.
func TestFramedNowhere(t *testing.T) {
	s := serve(t)
	c := browse(t, s, boss)
	_, err := s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: "git push", Namespace: "team"})
	must(t, err)
	c.until("the question is there", `!!document.querySelector(".ask")`)
	room := strings.Trim(c.evaluate(`location.href`), `"`)
	fields := c.evaluate(`JSON.stringify(Object.fromEntries(new FormData(document.querySelector(".ask form"))))`)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<!doctype html><iframe id="f" src="%s"></iframe><form id="g" method="post" action="%sanswer"><input name="how" value="time"></form>`, room, room)
	}))
	defer evil.Close()
	c.open(evil.URL)
	c.until("its own page is there", `!!document.querySelector("#g")`)
	got := c.evaluate(`(async () => {
		const f = JSON.parse(` + fields + `), body = new URLSearchParams({...f, how: "time"}), out = [];
		for (const o of [{method: "POST", body, mode: "no-cors", credentials: "include"}, {method: "POST", body, credentials: "include"}, {credentials: "include"}]) {
			try { const r = await fetch("` + room + `" + (o.body ? "answer" : ""), o); out.push(r.type === "opaque" ? "" : await r.text()); } catch { out.push(""); }
		}
		let inside = "";
		try { inside = document.querySelector("#f").contentDocument?.body?.textContent || ""; } catch {}
		return out.join("") + inside;
	})()`)
	if strings.Contains(got, "git push") {
		t.Errorf("another site reads %s", got)
	}
	c.evaluate(`document.querySelector("#g").submit()`)
	c.until("the form was refused", `location.href.endsWith("/answer") || document.body.textContent.includes("refused") || document.body.textContent.length > 0`)
	if len(s.broker.Pending()) != 1 {
		t.Error("another site has answered the question")
	}
	if len(c.faults) == 0 {
		t.Error("the browser has shown the frame")
	}
}

// TestByKeys: a person finds, opens and checks a run, and leaves a session, without a mouse.
func TestByKeys(t *testing.T) {
	s := serve(t)
	res, other := s.ran("team", "shell", "echo found-by-keys; exit 3"), s.ran("team", "shell", "true")
	c := browse(t, s, boss)
	at := func(section, what string) {
		t.Helper()
		c.until(what, `document.body.dataset.section === "`+section+
			`" && document.readyState === "complete" && document.querySelector("#keys_on").checked`)
	}
	c.press("?")
	c.until("the list of keys is open", `document.querySelector("#help").open`)
	c.press("Escape")
	c.until("it is closed", `!document.querySelector("#help").open && document.activeElement === document.body`)
	c.press("/")
	at("ran", "a search is at hand from everywhere")
	c.press("/")
	c.until("its field has the focus", `document.activeElement.id === "f_text"`)
	c.call("Input.insertText", map[string]any{"text": "found-by-keys"}, nil)
	c.evaluate(`window.before = true`)
	c.press("Enter")
	c.until("it is searched", `!window.before && location.search.includes("found-by-keys") && document.readyState === "complete"`)
	c.evaluate(`history.back()`)
	c.until("all rows are there", `document.querySelectorAll("#rows tbody a").length === 2 && document.readyState === "complete"`)
	c.press("j", "j")
	c.until("the second row has the focus", `document.activeElement.href?.includes("`+res.ID+`")`)
	c.press("k")
	c.until("the first row has the focus", `document.activeElement.href?.includes("`+other.ID+`")`)
	c.press("j", "Enter")
	at("run", "its story is there")
	for range 40 {
		if c.press("Tab"); c.evaluate(`document.activeElement.id`) == `"verify"` {
			break
		}
	}
	c.press("Enter")
	c.until("receipt and inclusion hold", `document.querySelectorAll("#verdict .good").length === 6`)
	c.evaluate(`document.querySelector("#sound").focus()`)
	for range 5 {
		if c.press("Tab"); c.evaluate(`document.activeElement.closest("form")?.id`) == `"leave"` {
			break
		}
	}
	c.press("Enter")
	c.until("the gate is there", `!!document.querySelector("#by_code")`)
}

// TestBelowAPath: behind a reverse proxy, below a path of another origin, a person gets in, reads, answers, follows,
// checks and signs out.
func TestBelowAPath(t *testing.T) {
	s := serve(t)
	res := s.ran("team", "shell", "echo one")
	to, err := url.Parse(s.base)
	must(t, err)
	proxy := httptest.NewServer(http.StripPrefix("/agents/sandbox", &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		}}))
	t.Cleanup(proxy.Close) // after the browser, for whose streams it waits
	c := startChromium(t)
	c.open(proxy.URL + "/agents/sandbox/#" + s.invitation(boss))
	c.until("it is in", `!!document.querySelector("header.top") && location.pathname.startsWith("/agents/sandbox/~")`)
	_, wait := s.startRun("python", "print('hello', flush=True)\n"+fmt.Sprintf(connects, "below.example"))
	c.until("the question is there", `!!document.querySelector(".ask .yes")`)
	c.until("it is watched", `(document.querySelector("[data-watch]")?.click(), !document.querySelector("#watch").hidden)`)
	c.until("output comes", `document.querySelector("#watch .pane").textContent.includes("hello")`)
	hosttest.Until(t, "the question is answered", func() bool {
		if len(s.broker.Pending()) == 0 {
			return true
		}
		c.evaluate(`document.querySelector(".ask .no:enabled")?.click()`)
		return false
	})
	wait()
	for i, section := range []string{"ran", "policy", "charts"} {
		c.press(fmt.Sprint(i + 2))
		c.until(section, `location.pathname.endsWith("/`+section+`") && document.body.dataset.section === "`+section+
			`" && document.readyState === "complete"`)
	}
	c.evaluate(`location.href = "run?id=` + res.ID + `"`)
	c.until("its story is there", `!!document.querySelector("#verify")`)
	c.evaluate(`document.querySelector("#verify").click()`)
	c.until("receipt and inclusion hold", `document.querySelectorAll("#verdict .good").length === 6`)
	c.quiet()
	c.evaluate(`document.querySelector("#leave button").click()`)
	c.until("the gate is there", `!!document.querySelector("#by_code") && location.pathname === "/agents/sandbox/"`)
}

// TestTerminal: typed code runs in the session, with its value, and by keys alone.
func TestTerminal(t *testing.T) {
	s := serve(t)
	_, _, err := pipeline.Do(t.Context(), s.pipe, session.New{Namespace: "team", Language: "python"})
	must(t, err)
	c := browse(t, s, boss)
	c.evaluate(`location.href = "session?id=` + session.List(s.pipe, "team")[0].ID + `"`)
	c.until("the line is there", `!!document.querySelector("#typed")`)
	c.evaluate(`document.querySelector("#typed").value = "x = 40\nprint('hi <b>')\nx + 2"; document.querySelector("#typed").focus()`)
	c.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13,
		"modifiers": 2}, nil)
	c.until("output and value are there", `document.querySelector(".pane").textContent.includes("hi <b>") && document.querySelector(".pane .value")?.textContent === "42"`)
	c.until("it can be typed again", `document.querySelector("#stop").hidden`)
	c.quiet()
	for deadline := time.Now().Add(time.Minute); session.List(s.pipe, "team")[0].Cells != 1; {
		if time.Now().After(deadline) {
			t.Fatal("no cell ran")
		}
	}
}
