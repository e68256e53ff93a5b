package session_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// await is code for a cell that goes on when let has put a file there.
const await = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"

func TestSessionKeepsWhatCellsLeave(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	s := pipelinetest.Open(t, p, session.New{})
	if res := pipelinetest.Cell(t, p, s.ID, "x = 41\nopen('left', 'w').write('file')", nil); res.Ended != "ok" || len(res.Artifacts) != 1 ||
		res.Artifacts[0].Name != "left" {
		t.Fatalf("got %s %+v %s", res.Ended, res.Artifacts, res.Stderr)
	}
	res := pipelinetest.Cell(t, p, s.ID, "print('hello'); x + 1", nil)
	if res.Stdout != "hello\n" || res.Value["text/plain"] != "42" || res.Session != s.ID {
		t.Errorf("got %q, %v", res.Stdout, res.Value)
	}
	if len(res.Artifacts) != 0 {
		t.Errorf("a file that did not change is an artifact again: %+v", res.Artifacts)
	}
	if !slices.Contains(res.LayersInForce(), backends.LayerSeccomp) {
		t.Errorf("layers: %v", res.Layers)
	}
	res = pipelinetest.Cell(t, p, s.ID, "1/0", nil)
	if res.Ended != "exit" || res.ExitCode != 1 || res.Error == nil || res.Error.Type != "ZeroDivisionError" {
		t.Errorf("got %s %d %+v", res.Ended, res.ExitCode, res.Error)
	}
	if res = pipelinetest.Cell(t, p, s.ID, "import sys; sys.exit(7)", nil); res.ExitCode != 7 || res.StateLost != "" {
		t.Errorf("exit: got %d, %q", res.ExitCode, res.StateLost)
	}
	res = pipelinetest.Cell(t, p, s.ID, "while True: pass", func(q *run.Request) { q.Limits.Wall = time.Second })
	if res.Ended != backends.EndedTimeout || res.StateLost != "" {
		t.Errorf("endless: %s %q", res.Ended, res.StateLost)
	}
	if res = pipelinetest.Cell(t, p, s.ID, "x", nil); res.Value["text/plain"] != "41" {
		t.Errorf("afterwards x is %v", res.Value)
	}
	if _, err := pipelinetest.CloseSession(t.Context(), p, "", s.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err := pipeline.Do(t.Context(), p, run.Request{Where: run.Where{Session: s.ID}, Code: []byte("x")})
	if e := pipelinetest.Stopped(t, err); !errors.Is(err, session.ErrDead) || e.Remedy.IsZero() {
		t.Errorf("a closed session: %v", err)
	}
	got := pipelinetest.Kinds(t, log)
	if got[0] != event.SessionCreated || !slices.Contains(got, event.SessionKilled) {
		t.Errorf("rows: %v", got)
	}
}

func TestSessionTellsHowItsInterpreterDied(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	for _, test := range []struct{ name, code, ended, lost string }{
		{"exit", "import os; os._exit(3)", backends.EndedExit, "code 3"},
		{"signal", "import os; os.kill(os.getpid(), 11)", backends.EndedSignal, "SIGSEGV"},
		{"memory", "a = [bytearray(b'x' * (8 << 20)) for _ in range(100)]", backends.EndedOOM, "memory"},
		{"stubborn", "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass", backends.EndedTimeout,
			"killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := pipelinetest.Open(t, p, session.New{Limits: pipeline.Bounds{Limits: backends.Limits{RAM: 200 << 20}}})
			pipelinetest.Cell(t, p, s.ID, "x = 1; open('kept', 'w').write('y')", nil)
			res := pipelinetest.Cell(t, p, s.ID, test.code, func(q *run.Request) {
				if test.ended == backends.EndedTimeout {
					q.Limits.Wall = time.Second
				}
			})
			if res.Ended != test.ended || !strings.Contains(res.StateLost, test.lost) {
				t.Errorf("ended %s, lost %q; want %s, %s", res.Ended, res.StateLost, test.ended, test.lost)
			}
			res = pipelinetest.Cell(t, p, s.ID, "import os; print('x' in globals(), os.path.exists('kept'))", nil)
			if res.Stdout != "False True\n" || res.StateLost != "" {
				t.Errorf("afterwards: %q %s %q", res.Stdout, res.Stderr, res.StateLost)
			}
			if info, _ := session.InfoOf(p, "", s.ID); len(info.Restarts) != 1 || info.State != "idle" {
				t.Errorf("info %+v", info)
			}
		})
	}
	t.Run("between cells", func(t *testing.T) {
		s := pipelinetest.Open(t, p, session.New{})
		pipelinetest.Cell(t, p, s.ID, "import threading\ndef end():\n  "+strings.ReplaceAll(await, "\n", "\n  ")+
			"os._exit(9)\nthreading.Thread(target=end).start()", nil)
		retained, err := session.FindSession(p, "", s.ID)
		if err != nil {
			t.Fatal(err)
		}
		guard, err := retained.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dead := guard.Kernel().Done()
		guard.Release()
		letGo(t, p, s.ID)
		<-dead
		if res := pipelinetest.Cell(t, p, s.ID, "1", nil); !strings.Contains(res.StateLost, "code 9") {
			t.Errorf("nobody was told: %q", res.StateLost)
		}
	})
}

func TestSessionIsWalled(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	a, b := pipelinetest.Open(t, p, session.New{}), pipelinetest.Open(t, p, session.New{})
	pipelinetest.Cell(t, p, a.ID, "secret = 'of a'; open('/tmp/a', 'w').write('x'); open('a', 'w').write('x')", nil)
	res := pipelinetest.Cell(t, p, b.ID, "import os; print('secret' in globals(), os.listdir('/tmp'), os.listdir('.'), len([d for d in "+
		"os.listdir('/proc') if d.isdigit()]) < 4)", nil)
	if res.Stdout != "False [] [] True\n" {
		t.Errorf("b sees %q %s", res.Stdout, res.Stderr)
	}
	for name, q := range map[string]run.Request{
		"another namespace": {Where: run.Where{Session: a.ID}, Namespace: "other", Code: []byte("1")},
		"unknown":           {Where: run.Where{Session: "nonsense"}, Code: []byte("1")},
		"another language":  {Where: run.Where{Session: a.ID}, Language: "node", Code: []byte("1")},
		"a mount": {Where: run.Where{Session: a.ID}, Code: []byte("1"),
			HostFiles: run.HostFiles{Mounts: []backends.Mount{{Host: "/etc", Inside: "/x"}}}},
		"more memory": {Where: run.Where{Session: a.ID}, Code: []byte("1"),
			Bounds: pipeline.Bounds{Limits: backends.Limits{RAM: 1 << 30}}},
		"more time than the cap": {Where: run.Where{Session: a.ID}, Code: []byte("1"),
			Bounds: pipeline.Bounds{Limits: backends.Limits{Wall: 1000 * time.Hour}}},
	} {
		if _, _, err := pipeline.Do(t.Context(), p, q); !pipelinetest.Stopped(t, err).Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pipelinetest.CloseSession(t.Context(), p, "other", a.ID); err == nil {
		t.Error("another namespace closed it")
	}
	if _, err := session.Inspect(t.Context(), p, "other", a.ID); err == nil {
		t.Error("another namespace looked into it")
	}
	if _, _, err := pipeline.Do(t.Context(), p, session.Bridge{Namespace: "other", Session: a.ID, Key: "x", Value: json.RawMessage("1")}); err == nil {
		t.Error("another namespace put something into it")
	}
}

// A secret that a session leased in one cell is still redacted from the output of a later cell.
func TestSessionSecretsAreRedactedForItsWholeLife(t *testing.T) {
	p, log, memory := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Results = newResults(t) })
	value := "k3y-" + "of-a-session-0001"
	memory.Set("default", "API_KEY", []byte(value))
	s := pipelinetest.Open(t, p, session.New{})
	first := pipelinetest.Cell(t, p, s.ID, "import os, base64\nkey = os.environ['API_KEY']; print(key); key", func(q *run.Request) { q.Secrets = []string{"API_KEY"} })
	later := pipelinetest.Cell(t, p, s.ID, `print(key[:5], end='', flush=True); print(key[5:]); print(base64.b64encode(key.encode()).decode())
open('out', 'w').write(key)
raise ValueError(key)`, nil)
	visible := pipelinetest.Cell(t, p, s.ID, "class T:\n  def _repr_html_(self): return '<b>' + key + '</b>'\nT()", nil)
	state, err := session.Inspect(t.Context(), p, "", s.ID)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := json.Marshal([]any{first, later, visible, state})
	for _, spelled := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
		if strings.Contains(string(all), spelled) {
			t.Errorf("%q is in %s", spelled, all)
		}
	}
	if first.Value["text/plain"] != "'"+vault.Mark+"'" || later.Error == nil || !strings.Contains(later.Error.Message, vault.Mark) {
		t.Errorf("got %v, %+v", first.Value, later.Error)
	}
	if len(later.Artifacts) != 1 || later.Artifacts[0].Withheld == "" {
		t.Errorf("artifacts %+v", later.Artifacts)
	}
	if !slices.Contains(state.Env, "API_KEY="+vault.Mark) {
		t.Errorf("env %v", state.Env)
	}
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil || strings.Contains(string(row.Data), value) {
			t.Errorf("%v %s", err, row.Data)
		}
	}
	// A new interpreter has it again where it is asked for.
	pipelinetest.Cell(t, p, s.ID, "os._exit(0)", nil)
	if res := pipelinetest.Cell(t, p, s.ID, "import os; len(os.environ['API_KEY'])", func(q *run.Request) { q.Secrets = []string{"API_KEY"} }); res.Value["text/plain"] != "21" {
		t.Errorf("after a restart: %v %+v", res.Value, res.Error)
	}
}

func TestResultStoreHasTheResult(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Results = newResults(t) })
	_, res, err := pipeline.Do(t.Context(), p, run.Request{Language: "python", Code: []byte("print('out'); open('file.txt', 'w').write('content')")})
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Config.Results.Get(res.ID)
	if err != nil || k.Stdout != "out\n" || len(k.Artifacts) != 1 {
		t.Fatalf("got %+v, %v", k, err)
	}
	part, err := p.Config.Results.Read(res.ID, "files/file.txt", 3, 100)
	if err != nil || string(part.Data) != "tent" || part.Size != 7 {
		t.Errorf("got %q of %d, %v", part.Data, part.Size, err)
	}
}

func TestBridgeCarriesValues(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	a, b := pipelinetest.Open(t, p, session.New{}), pipelinetest.Open(t, p, session.New{})
	value := json.RawMessage(`{"name": "ü", "list": [1, 2.5, null, true], "deep": {"x": {}}}`)
	if _, _, err := pipeline.Do(t.Context(), p, session.Bridge{Session: a.ID, Key: "data", Value: value}); err != nil {
		t.Fatal(err)
	}
	pipelinetest.Cell(t, p, a.ID, "data['list'].append(data['name'])", nil)
	if _, _, err := pipeline.Do(t.Context(), p, session.Bridge{From: a.ID, Session: b.ID, Key: "data", As: "copy"}); err != nil {
		t.Fatal(err)
	}
	if res := pipelinetest.Cell(t, p, b.ID, "copy['list']", nil); res.Value["text/plain"] != "[1, 2.5, None, True, 'ü']" {
		t.Errorf("got %v %+v", res.Value, res.Error)
	}
	for name, bad := range map[string]session.Bridge{
		"no name":    {Session: a.ID, Key: "", Value: value},
		"no JSON":    {Session: a.ID, Key: "x", Value: json.RawMessage("{")},
		"no session": {Session: "x", Key: "x", Value: value},
		"no such":    {From: a.ID, Session: b.ID, Key: "nothing"},
	} {
		if _, _, err := pipeline.Do(t.Context(), p, bad); !pipelinetest.Stopped(t, err).Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	log.FailAt("session.bridged")
	if _, _, err := pipeline.Do(t.Context(), p, session.Bridge{Session: a.ID, Key: "unrecorded", Value: value}); err == nil {
		t.Error("a value went in without a row")
	}
	log.Fail = nil
	if res := pipelinetest.Cell(t, p, a.ID, "'unrecorded' in globals()", nil); res.Value["text/plain"] != "False" {
		t.Errorf("got %v", res.Value)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		*pipeline.EnsureSettings[session.Config](c) = session.Config{PerNamespace: 2, Total: 3, Idle: time.Hour, Lifetime: 2 * time.Hour}
	})
	pipelinetest.Open(t, p, session.New{})
	second := pipelinetest.Open(t, p, session.New{})
	_, err := pipelinetest.OpenSession(t.Context(), p, session.New{Language: "python"})
	if !errors.Is(err, session.ErrFull) || pipelinetest.Stopped(t, err).Remedy.IsZero() {
		t.Errorf("a third in one namespace: %v", err)
	}
	pipelinetest.Open(t, p, session.New{Namespace: "other"})
	if _, err := pipelinetest.OpenSession(t.Context(), p, session.New{Language: "python", Namespace: "third"}); !errors.Is(err, session.ErrFull) {
		t.Errorf("a fourth of all: %v", err)
	}
	pipelinetest.CloseSession(t.Context(), p, "", second.ID)
	pipelinetest.Open(t, p, session.New{})
	if _, err := pipelinetest.OpenSession(t.Context(), p, session.New{Namespace: "x", Language: "python", Lifetime: 3 * time.Hour}); !pipelinetest.Stopped(t, err).Denied {
		t.Errorf("a longer life than the cap: %v", err)
	}
	if _, err := pipelinetest.OpenSession(t.Context(), p, session.New{Namespace: "x", Language: "cobol"}); !pipelinetest.Stopped(t, err).Denied {
		t.Errorf("an unknown language: %v", err)
	}
}

func TestSessionsExpire(t *testing.T) {
	var later atomic.Int64
	p, log, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		pipeline.EnsureSettings[session.Config](c).Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	idle := pipelinetest.Open(t, p, session.New{Idle: time.Hour})
	old := pipelinetest.Open(t, p, session.New{Lifetime: time.Hour})
	busy := pipelinetest.Open(t, p, session.New{Idle: time.Hour})
	last := pipelinetest.Open(t, p, session.New{Idle: 3 * time.Hour})
	ended := func(s session.Info) string {
		info, err := session.InfoOf(p, "", s.ID)
		if err != nil {
			t.Fatal(err)
		}
		return info.Ended
	}
	done := make(chan pipeline.Outcome)
	go func() { done <- pipelinetest.Cell(t, p, busy.ID, await+"'done'", nil) }()
	hosttest.Until(t, "the cell runs", func() bool { info, _ := session.InfoOf(p, "", busy.ID); return info.State == "busy" })
	later.Store(int64(2 * time.Hour))
	hosttest.Until(t, "two have ended", func() bool { return ended(idle) == "idle" && ended(old) == "lifetime" })
	if why := ended(last); why != "" {
		t.Errorf("the one with time left has ended: %s", why)
	}
	later.Store(int64(4 * time.Hour))
	hosttest.Until(t, "the third has ended", func() bool { return ended(last) == "idle" })
	letGo(t, p, busy.ID) // at which the rounds in between have looked
	if res := <-done; res.Value["text/plain"] != "'done'" {
		t.Errorf("a busy session was ended: %+v", res)
	}
	hosttest.Until(t, "each of the three ends has its row", func() bool { // which comes after it is told
		return len(slices.DeleteFunc(pipelinetest.Kinds(t, log), func(k string) bool { return k != event.SessionKilled })) == 3
	})
}

func TestNoRowNoSession(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	log.FailAt(event.SessionCreated)
	if _, err := pipelinetest.OpenSession(t.Context(), p, session.New{Language: "python"}); err == nil {
		t.Fatal("a session without a row")
	}
	if n := len(session.List(p, "")); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

func TestCellsOfOneSessionRunOneAfterAnother(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, nil)
	s := pipelinetest.Open(t, p, session.New{})
	pipelinetest.Cell(t, p, s.ID, "n = 0", nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { pipelinetest.Cell(t, p, s.ID, "m = n; import time; time.sleep(0.005); n = m + 1", nil) })
	}
	all.Wait()
	if res := pipelinetest.Cell(t, p, s.ID, "n", nil); res.Value["text/plain"] != "20" {
		t.Errorf("got %v", res.Value)
	}
}

func TestClosingWhileACellRuns(t *testing.T) {
	p, _, memory := pipelinetest.NewReal(t, nil)
	value := "k3y-" + "of-a-closed-one"
	memory.Set("default", "K", []byte(value))
	s := pipelinetest.Open(t, p, session.New{})
	done := make(chan pipeline.Outcome, 1)
	var live hosttest.Buffer
	go func() {
		_, res, _ := pipeline.Do(t.Context(), p, run.Request{Where: run.Where{Session: s.ID}, Reach: run.Reach{Secrets: []string{"K"}}, Streams: run.Streams{Stdout: &live}, Code: []byte("import os, time\nprint(os.environ['K'] + '\\nbegun', flush=True); time.sleep(1000)")})
		done <- res
	}()
	hosttest.Until(t, "the cell writes", func() bool { return strings.Contains(live.String(), "begun") })
	if info, err := pipelinetest.CloseSession(t.Context(), p, "", s.ID); err != nil || info.State != "dead" || info.Ended != "closed" {
		t.Errorf("got %+v, %v", info, err)
	}
	if res := <-done; strings.Contains(res.Stdout, value) || res.Ended == "ok" {
		t.Errorf("got %s %q", res.Ended, res.Stdout)
	}
}

func TestJobs(t *testing.T) {
	p := pipelinetest.NewRig(t, nil)
	stdin, hold := io.Pipe()
	id, done := run.StartJob(t.Context(), p.Pipeline, run.Request{Language: "shell", Code: []byte("echo first; read line; echo second"), Streams: run.Streams{Stdin: stdin}})
	hosttest.Until(t, "it has written", func() bool { j, ok := run.JobOf(p.Pipeline, "", id); return ok && j.Stdout == "first\n" })
	if j, _ := run.JobOf(p.Pipeline, "", id); j.State != "running" || j.Result != nil {
		t.Errorf("while it runs: %+v", j)
	}
	io.WriteString(hold, "go\n")
	hold.Close()
	<-done
	if j, _ := run.JobOf(p.Pipeline, "", id); j.State != "done" || j.Result == nil || j.Result.Stdout != "first\nsecond\n" || j.Result.ID != id {
		t.Errorf("afterwards: %+v", j)
	}
	if _, ok := run.JobOf(p.Pipeline, "other", id); ok {
		t.Error("another namespace sees it")
	}
	id, done = run.StartJob(t.Context(), p.Pipeline, run.Request{Language: "shell", Code: []byte("echo begun; exec sleep 1000")})
	hosttest.Until(t, "it runs", func() bool { j, _ := run.JobOf(p.Pipeline, "", id); return j.Stdout == "begun\n" })
	if run.CancelJob(p.Pipeline, "other", id) || !run.CancelJob(p.Pipeline, "", id) {
		t.Error("cancel")
	}
	<-done
	if j, _ := run.JobOf(p.Pipeline, "", id); j.Result.Ended != backends.EndedCancelled {
		t.Errorf("ended %s", j.Result.Ended)
	}
	if run.CancelJob(p.Pipeline, "", id) {
		t.Error("cancelled twice")
	}
}

func TestSetLimits(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) { c.Caps = pipeline.Bounds{Limits: backends.Limits{RAM: 1 << 30}} })
	got, err := setLimits(t.Context(), p, "team", "", pipeline.Bounds{Limits: backends.Limits{RAM: 100 << 20}})
	if err != nil || got.RAM != 100<<20 || got.Wall != pipeline.DefaultBounds.Wall {
		t.Errorf("got %+v, %v", got, err)
	}
	code := []byte("a = bytearray(b'x' * (150 << 20))")
	if _, res, err := pipeline.Do(t.Context(), p, run.Request{
		Namespace: "team", Language: "python", Code: code,
	}); err != nil || res.Ended != backends.EndedOOM {
		t.Errorf("in the namespace: %s, %v", res.Ended, err)
	}
	if _, res, err := pipeline.Do(t.Context(), p, run.Request{Language: "python", Code: code}); err != nil || res.Ended != backends.EndedOK {
		t.Errorf("in another: %s, %v", res.Ended, err)
	}
	if _, err := setLimits(t.Context(), p, "team", "", pipeline.Bounds{Limits: backends.Limits{RAM: 2 << 30}}); !pipelinetest.Stopped(t, err).Denied {
		t.Errorf("above the cap: %v", err)
	}
	s := pipelinetest.Open(t, p, session.New{})
	if got, err := setLimits(t.Context(), p, "", s.ID, pipeline.Bounds{Limits: backends.Limits{RAM: 100 << 20, Wall: time.Second}}); err != nil || got.RAM != 100<<20 || got.Wall != time.Second {
		t.Fatalf("got %+v, %v", got, err)
	}
	if res := pipelinetest.Cell(t, p, s.ID, string(code), func(q *run.Request) { q.Limits.Wall = time.Minute }); res.Ended != backends.EndedOOM {
		t.Errorf("in the session: %s", res.Ended)
	}
	if res := pipelinetest.Cell(t, p, s.ID, "import time; time.sleep(1000)", nil); res.Ended != backends.EndedTimeout {
		t.Errorf("in the session: %s", res.Ended)
	}
}
func letGo(t testing.TB, p *pipeline.Pipeline, id string) {
	t.Helper()
	s, err := session.FindSession(p, "", id)
	if err == nil {
		err = s.Sandbox().Files().Put("go", 0o644, strings.NewReader(""))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newResults(t testing.TB) *results.Store {
	s, err := results.Open(results.Config{Dir: filepath.Join(t.TempDir(), "runs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func setLimits(ctx context.Context, p *pipeline.Pipeline, namespace, id string, b pipeline.Bounds) (pipeline.Bounds, error) {
	now, _, err := pipeline.Do(ctx, p, session.NewLimits{Namespace: namespace, Session: id, Bounds: b})
	return now, err
}
