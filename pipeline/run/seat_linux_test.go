package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// single has one slot, and no room for a run that has to wait for it.
func single(c *pipeline.Config) { c.Queue = pipeline.NewQueue(1, 0) }

// deliver gives a run the result of a call, and waits for nothing.
func deliver(t *testing.T, p *pipeline.Pipeline, id, call string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run.Resume(ctx, p, "", id, []run.ToolResult{{ID: call, Value: json.RawMessage(`1`)}}, nil); !errors.Is(err,
		context.Canceled) {
		t.Fatal(err)
	}
}

// takeSlots takes the only slot for another run of the same namespace, and returns a function that releases it.
func takeSlots(t *testing.T, p *pipeline.Pipeline) (leave func()) {
	t.Helper()
	leave, err := p.Config.Queue.Acquire(t.Context(), "default", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func stateOf(p *pipeline.Pipeline, id string) string {
	list := p.ListRunning("")
	if i := slices.IndexFunc(list, func(r pipeline.RunningEffect) bool { return r.Run == id }); i >= 0 {
		return list[i].State
	}
	return "gone"
}

// TestWaitingGivesSlotsBack: code that waits for its client holds no slot, and goes on only with one.
func TestWaitingGivesSlotsBack(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, single)
	s, other := pipelinetest.Open(t, p, session.New{Tools: []session.Tool{searchTool}}), pipelinetest.Open(t, p, session.New{})
	id := startJob(t, p, s, "from tools import search\nsearch() + search()")
	j := resume(t, p, id)
	if l := p.Load(); l.Running != 0 || l.Waiting != 0 || stateOf(p, id) != "waiting" {
		t.Errorf("while it waits for its client: %+v, %s", l, stateOf(p, id))
	}
	if res := pipelinetest.Cell(t, p, other.ID, "6 * 7", nil); res.Value["text/plain"] != "42" {
		t.Errorf("another session meanwhile: %+v", res)
	}
	leave := takeSlots(t, p)
	deliver(t, p, id, j.Calls[0].ID)
	hosttest.Until(t, "it queues again", func() bool { return p.Load().Waiting == 1 })
	if n := len(pipelinetest.Rows(t, log, "session.tool_answered")); n != 0 || stateOf(p, id) != "waiting" {
		t.Errorf("it went on without a slot: %d answers, %s", n, stateOf(p, id))
	}
	leave()
	if j = resume(t, p, id); len(j.Calls) != 1 {
		t.Fatalf("after its turn: %+v", j)
	}
	if j = resume(t, p, id, run.ToolResult{ID: j.Calls[0].ID, Value: json.RawMessage(`2`)}); j.Result == nil ||
		j.Result.Value["text/plain"] != "3" {
		t.Errorf("its end: %+v", j.Result)
	}
	if l := p.Load(); l.Running != 0 || l.Waiting != 0 || waiting(p) != 0 {
		t.Errorf("after its end: %+v, %v", l, waiting(p))
	}
}

// TestQueueingAgainEnds: a cancellation, and the end of its time, end code that waits for its client or for a slot to
// go on with.
func TestQueueingAgainEnds(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, single)
	s := pipelinetest.Open(t, p, session.New{Tools: []session.Tool{searchTool}})
	for name, c := range map[string]struct {
		queues  bool
		wall    time.Duration
		end     func(id string)
		because string
	}{
		"cancelled while it waits":  {false, time.Hour, func(id string) { run.CancelJob(p, "", id) }, "cancelled"},
		"cancelled while it queues": {true, time.Hour, func(id string) { run.CancelJob(p, "", id) }, "cancelled"},
		"late while it waits":       {false, time.Second, func(string) {}, "timeout"},
		"late while it queues":      {true, time.Second, func(string) {}, "timeout"},
	} {
		q := run.Request{Where: run.Where{Session: s.ID}, Code: []byte("from tools import search\nsearch()")}
		q.Limits.Wall = c.wall
		id, done := run.StartJob(t.Context(), p, q)
		j := resume(t, p, id)
		if len(j.Calls) == 0 {
			t.Fatalf("%s: %+v", name, j.Result)
		}
		leave := takeSlots(t, p)
		if c.queues {
			deliver(t, p, id, j.Calls[0].ID)
			hosttest.Until(t, "it queues again", func() bool { j, _ := run.JobOf(p, "", id); return p.Load().Waiting == 1 || j.Result != nil })
		}
		c.end(id)
		<-done
		if j, _ := run.JobOf(p, "", id); j.Result.Ended != c.because || j.Result.StateLost != "" {
			t.Errorf("%s: %+v", name, j.Result)
		}
		if l := p.Load(); l.Running != 1 || l.Waiting != 0 {
			t.Errorf("%s: %+v", name, l)
		}
		leave()
	}
	if l := p.Load(); l.Running != 0 || waiting(p) != 0 {
		t.Errorf("what is left: %+v %v", l, waiting(p))
	}
}

// TestOthersStillWait: code that got one of its answers goes on with slots, and has none for ever for the sake of the
// others.
func TestOthersStillWait(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, single)
	s := pipelinetest.Open(t, p, session.New{Language: "node", Tools: []session.Tool{searchTool}})
	id := startJob(t, p, s, "const { search } = require('tools'); const all = [search({ n: 0 }), search({ n: 1 })]; console.log(await "+
		"all[0]); await all[1]")
	j := resume(t, p, id)
	for len(j.Calls) < 2 {
		j = resume(t, p, id)
	}
	slices.SortFunc(j.Calls, func(a, b run.ToolCall) int { return bytes.Compare(a.Arguments, b.Arguments) })
	deliver(t, p, id, j.Calls[0].ID)
	hosttest.Until(t, "the code has gone on", func() bool { j, _ := run.JobOf(p, "", id); return j.Stdout == "1\n" })
	hosttest.Until(t, "its slot is free", func() bool { return p.Load().Running == 0 })
	takeSlots(t, p)()
	if j = resume(t, p, id, run.ToolResult{ID: j.Calls[1].ID, Value: json.RawMessage(`2`)}); j.Result == nil ||
		j.Result.Value["text/plain"] != "2" {
		t.Errorf("got %+v", j.Result)
	}
}

// waiting counts the effects that wait for their clients.
func waiting(p *pipeline.Pipeline) (n int) {
	p.Active.Mu.Lock()
	defer p.Active.Mu.Unlock()
	for _, l := range p.Active.Effects {
		if l.WaitOwner != "" {
			n++
		}
	}
	return n
}

// TestTooManyWait: no caller has more executions wait than it may. A further one is told so, and keeps no slot.
func TestTooManyWait(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, single)
	s := pipelinetest.Open(t, p, session.New{Tools: []session.Tool{searchTool}})
	other := &pipeline.ActiveEffect{}
	for n := range run.MaxWaiting(1) {
		other = &pipeline.ActiveEffect{}
		p.Active.Mu.Lock()
		p.Active.Effects[fmt.Sprint(n)] = other
		p.Active.Mu.Unlock()
		if err := p.Active.WaitForClient(other, "namespace default", run.MaxWaiting(1)); err != nil {
			t.Fatal(err)
		}
	}
	j := resume(t, p, startJob(t, p, s, "from tools import search, ToolError\ntry: search()\nexcept ToolError as e: text = str(e)\ntext"))
	if j.Result == nil || !strings.Contains(j.Result.Value["text/plain"], "16 executions wait for results of tools, the maximum") {
		t.Errorf("one too many: %+v %+v", j.Calls, j.Result)
	}
	if r := pipelinetest.Rows(t, log, "session.tool_answered"); len(r) != 1 || !strings.Contains(r[0], `"ended":"refused"`) {
		t.Errorf("the log has %q", r)
	}
	p.Active.StopWaiting(other)
	if j = resume(t, p, startJob(t, p, s, "search()")); len(j.Calls) != 1 {
		t.Errorf("when another has ended: %+v", j.Result)
	}
}
