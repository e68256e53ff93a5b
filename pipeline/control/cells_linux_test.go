package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// running is a listener before real sandboxes and a real log.
type running struct {
	*Client
	t        *testing.T
	listener *Listener
	pipeline *pipeline.Pipeline
	log      *audit.Log
}

func serveRuns(t *testing.T) *running {
	t.Helper()
	return runAt(t, patient)
}

func runAt(t *testing.T, at pace) *running {
	t.Helper()
	b := process.New(process.Config{StateDir: t.TempDir()})
	t.Cleanup(func() { b.Close() })
	if probe, err := b.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers}); err != nil || !probe.Usable {
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	must(t, err)
	t.Cleanup(func() { log.Close() })
	p := pipeline.New(pipeline.Config{Backends: []backends.Backend{b}, Audit: log, Temp: t.TempDir(),
		Settings: []any{&workspace.Config{Dir: t.TempDir()}}})
	t.Cleanup(p.Close)
	l := serveAt(t, Config{Pipeline: p, Runs: p, Sweep: func(context.Context) {}, Alike: func() string { return alike }}, at)
	c := newClient(filepath.Dir(l.socket.path), strings.TrimSuffix(filepath.Base(l.socket.path), socketSuffix))
	t.Cleanup(c.Close)
	return &running{c, t, l, p, log}
}

func (r *running) create(language string) session.Info {
	r.t.Helper()
	info, err := Call(r.t.Context(), r.Client, CreateSession, NewSession{Language: language, Namespace: "team"})
	must(r.t, err)
	return info
}

// exec runs a cell, and returns its outcome and its output.
func (r *running) exec(id, code string) (pipeline.Outcome, string) {
	r.t.Helper()
	var response strings.Builder
	res, err := r.Exec(r.t.Context(), id, Cell{Code: code}, func(p Part) error {
		for _, b := range p.Output() {
			response.Write(b)
		}
		return nil
	})
	must(r.t, err)
	return res, response.String()
}

func unheard(Part) error { return nil }

// sendRunTo sends the ids of runs that begin.
func sendRunTo(began chan<- string) func(Part) error {
	return func(p Part) error {
		if p.Run != "" {
			began <- p.Run
		}
		return nil
	}
}

// idle waits until the session runs nothing.
func (r *running) idle(id string) {
	r.t.Helper()
	hosttest.Until(r.t, "the session is idle", func() bool {
		list, err := Call(r.t.Context(), r.Client, ListUsage, OfLimits{Session: id})
		return err == nil && len(list) == 1 && list[0].State == "idle"
	})
}

func TestCells(t *testing.T) {
	r := serveRuns(t)
	info := r.create("shell")
	if res, response := r.exec(info.ID, "x=6; printf 'a\\xffb'; echo $((x*7))"); res.Ended != backends.EndedOK || response != "a\xffb42\n" ||
		res.Session != info.ID {
		t.Errorf("got %q, %+v", response, res)
	}
	if res, response := r.exec(strings.ToLower(info.ID[:20]), "echo $x; exit 3"); res.ExitCode != 3 || response != "6\n" {
		t.Errorf("got %q, %+v", response, res)
	}
	if res, _ := r.exec(info.ID, "if"); res.ExitCode != 1 || res.Error == nil || res.Error.Type != "SyntaxError" {
		t.Errorf("an empty cell: %+v", res)
	}
	dir := t.TempDir()
	if _, err := r.Exec(t.Context(), info.ID, Cell{Code: "echo x > f.txt", Artifacts: dir}, unheard); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "f.txt")); string(b) != "x\n" {
		t.Errorf("an artifact: %q, %v", b, err)
	}
	state, err := Call(t.Context(), r.Client, InspectSession, OfSession{ID: info.ID})
	if err != nil || len(state.Files) != 1 || state.Cells != 4 {
		t.Errorf("got %+v, %v", state, err)
	}
	if _, err := Call(t.Context(), r.Client, PutValue, Value{OfSession: OfSession{info.ID}, Key: "rows", Value: json.RawMessage(`"[1]"`)}); err != nil {
		t.Error(err)
	}
	other := r.create("shell")
	if _, err := Call(t.Context(), r.Client, PutValue, Value{OfSession: OfSession{other.ID}, Key: "theirs", From: info.ID, Its: "rows"}); err != nil {
		t.Error(err)
	}
	if _, response := r.exec(other.ID, "echo $theirs"); response != "[1]\n" {
		t.Errorf("bridged is %q", response)
	}
	if list, err := Call(t.Context(), r.Client, ListSessions, InNamespace{Namespace: "team"}); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v", list, err)
	}
	if list, err := Call(t.Context(), r.Client, ListUsage, OfLimits{}); err != nil || len(list) != 2 || list[0].Usage.Processes == 0 {
		t.Errorf("got %+v, %v", list, err)
	}
	ended, err := Call(t.Context(), r.Client, EndSession, OfSession{ID: info.ID})
	if err != nil || ended.State != "dead" || ended.Cells != 4 {
		t.Errorf("got %+v, %v", ended, err)
	}
	if res, _ := r.exec(info.ID, "echo"); res.Refused == nil || !strings.Contains(res.Refused.Reason, "it was closed") {
		t.Errorf("a dead session: %+v", res)
	}
	r.signed(map[string]int{"session.created": 2, "session.killed": 1, "session.bridged": 2, "execution.completed": 5, "execution.refused": 1})
}

// signed wants that many rows of these kinds, each with the name of the asker.
func (r *running) signed(want map[string]int) {
	r.t.Helper()
	me, err := user.Current()
	must(r.t, err)
	got := map[string]int{}
	for row, err := range r.log.Rows(r.t.Context(), audit.Filter{}) {
		must(r.t, err)
		var who struct{ By, User string }
		must(r.t, json.Unmarshal(row.Data, &who))
		if who.By != "command line" || who.User != me.Username {
			r.t.Errorf("the row %s says that %+v asked", row.Kind, who)
		}
		got[row.Kind]++
	}
	for kind, n := range want {
		if got[kind] != n {
			r.t.Errorf("%d rows %s, want %d", got[kind], kind, n)
		}
	}
}

// An interrupted cell tells all that it has said, and its session goes on.
func TestInterrupt(t *testing.T) {
	r := serveRuns(t)
	info := r.create("python")
	r.exec(info.ID, "x = 41")
	for name, code := range map[string]string{
		"obeys": "print('begun', flush=True)\nwhile True: pass",
		"waits": "import time\ntry:\n  print('begun', flush=True)\n  time.sleep(1000)\nfinally: print('last words')",
	} {
		var run, response string
		res, err := r.Exec(t.Context(), info.ID, Cell{Code: code}, func(p Part) error {
			run += p.Run
			if response += p.Stdout; strings.Contains(p.Stdout, "begun") {
				if _, err := Call(t.Context(), r.Client, InterruptCell, OfRun{ID: run}); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		if err != nil || res.Ended != backends.EndedCancelled || name == "waits" && response != "begun\nlast words\n" {
			t.Errorf("%s: said %q, %+v, %v", name, response, res, err)
		}
	}
	if _, response := r.exec(info.ID, "print(x+1)"); response != "42\n" {
		t.Errorf("then it says %q", response)
	}
	var f *Failure
	for _, id := range []string{"01K9ZB5W7Q3M8Y2D4F6H8J0K2M", "x", "..%2f"} {
		if _, err := Call(t.Context(), r.Client, InterruptCell, OfRun{ID: id}); !errors.As(err, &f) || f.Status != http.StatusNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A client that vanishes has interrupted its cell, however it vanishes, and whether or not it reads.
func TestVanish(t *testing.T) {
	r := serveRuns(t)
	for name, code := range map[string]string{
		"silent":  "echo begun; sleep 1000",
		"flood":   "echo begun; yes",
		"nothing": "sleep 1000",
	} {
		info := r.create("shell")
		before, err := Call(t.Context(), r.Client, ListUsage, OfLimits{Session: info.ID})
		must(t, err)
		conn, err := dial(t.Context(), filepath.Dir(r.listener.socket.path), strings.TrimSuffix(filepath.Base(r.listener.socket.path), socketSuffix))
		must(t, err)
		body, _ := json.Marshal(Cell{Code: code})
		_, err = io.WriteString(conn, request("POST", "/v1/sessions/"+info.ID+"/cells", string(body)))
		must(t, err)
		hosttest.Until(t, "the cell runs", func() bool { got, _ := session.InfoOf(r.pipeline, "team", info.ID); return got.State == "busy" })
		must(t, conn.Close())
		r.idle(info.ID)
		if list, err := Call(t.Context(), r.Client, ListUsage, OfLimits{Session: info.ID}); err != nil || list[0].Usage.Processes > before[0].Usage.Processes {
			t.Errorf("%s: processes are left: %+v, %v", name, list, err)
		}
	}
	if l, err := Call(t.Context(), r.Client, GetQueue, NoArguments{}); err != nil || l.Running != 0 || len(l.Namespaces) != 0 {
		t.Errorf("the queue holds %+v, %v", l, err)
	}
}

// A cell ends with its listener, which does not wait for a client that reads nothing.
func TestCloseWhileCellsRun(t *testing.T) {
	r := serveRuns(t)
	info, other := r.create("shell"), r.create("shell")
	ended := make(chan error, 1)
	began := make(chan string, 1)
	go func() {
		_, err := r.Exec(t.Context(), info.ID, Cell{Code: "sleep 1000"}, sendRunTo(began))
		ended <- err
	}()
	<-began
	block := make(chan struct{})
	defer close(block)
	first := make(chan struct{})
	var once sync.Once
	go r.Exec(t.Context(), other.ID, Cell{Code: "yes"}, func(p Part) error {
		if p.Stdout != "" {
			once.Do(func() { close(first) })
			<-block
		}
		return nil
	})
	<-first
	r.listener.Close()
	<-ended
	if _, err := r.Exec(t.Context(), info.ID, Cell{Code: "echo"}, unheard); err == nil {
		t.Error("a closed listener runs code")
	}
}

// A cell takes longer than a request may that has an end.
func TestLongCell(t *testing.T) {
	r := runAt(t, pace{read: time.Hour, work: 1, write: 1, close: time.Second})
	info := r.create("shell")
	if res, response := r.exec(info.ID, "echo done"); response != "done\n" || res.Ended != backends.EndedOK {
		t.Errorf("got %q, %+v", response, res)
	}
}

// The maximum number of cells leaves room for short requests and for the end of a session, and one more cell is
// refused.
func TestManyCells(t *testing.T) {
	r := serveRuns(t)
	info, other := r.create("shell"), r.create("shell")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	began := make(chan string, maxLong)
	for range maxLong {
		all.Go(func() {
			r.Exec(ctx, info.ID, Cell{Code: "sleep 1000"}, sendRunTo(began))
		})
	}
	for range maxLong {
		<-began
	}
	var f *Failure
	if _, err := r.Exec(ctx, info.ID, Cell{Code: "echo"}, unheard); !errors.As(err, &f) || f.Status != http.StatusServiceUnavailable {
		t.Errorf("one more: %v", err)
	}
	if list, err := Call(ctx, r.Client, ListSessions, InNamespace{}); err != nil || len(list) != 2 {
		t.Errorf("something short: %v, %v", list, err)
	}
	if _, err := Call(ctx, r.Client, EndSession, OfSession{ID: other.ID}); err != nil {
		t.Errorf("the end of a session: %v", err)
	}
	cancel()
	all.Wait()
	r.idle(info.ID)
	r.exec(info.ID, "echo")
}
