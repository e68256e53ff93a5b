package pipeline

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
)

// single has one slot, and no room for a run that has to wait for it.
func single(c *Config) { c.Queue = NewQueue(1, 0) }

// deliver gives a run the result of a call, and waits for nothing.
func deliver(t *testing.T, p *Pipeline, id, call string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Resume(ctx, "", id, []ToolResult{{ID: call, Value: json.RawMessage(`1`)}}, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// take takes the only slot for another run of the same namespace, and returns what gives it back.
func take(t *testing.T, p *Pipeline) (leave func()) {
	t.Helper()
	leave, err := p.cfg.Queue.Enter(t.Context(), "default", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return leave
}

func stateOf(p *Pipeline, id string) string {
	list := p.Running("")
	if i := slices.IndexFunc(list, func(r Running) bool { return r.Run == id }); i >= 0 {
		return list[i].State
	}
	return "gone"
}

// TestWaitingGivesSlotsBack: code that waits for its client holds no slot, and goes on only with one.
func TestWaitingGivesSlotsBack(t *testing.T) {
	p, log, _ := newReal(t, single)
	s, other := open(t, p, NewSession{Tools: []Tool{searchTool}}), open(t, p, NewSession{})
	id := begin(t, p, s, "from tools import search\nsearch() + search()")
	j := resume(t, p, id)
	if l := p.Load(); l.Running != 0 || l.Waiting != 0 || stateOf(p, id) != "waiting" {
		t.Errorf("while it waits for its client: %+v, %s", l, stateOf(p, id))
	}
	if res := cell(t, p, other.ID, "6 * 7", nil); res.Value["text/plain"] != "42" {
		t.Errorf("another session meanwhile: %+v", res)
	}
	leave := take(t, p)
	deliver(t, p, id, j.Calls[0].ID)
	hosttest.Until(t, "it queues again", func() bool { return p.Load().Waiting == 1 })
	if n := len(rows(t, log, "session.tool_answered")); n != 0 || stateOf(p, id) != "waiting" {
		t.Errorf("it went on without a slot: %d answers, %s", n, stateOf(p, id))
	}
	leave()
	if j = resume(t, p, id); len(j.Calls) != 1 {
		t.Fatalf("after its turn: %+v", j)
	}
	if j = resume(t, p, id, ToolResult{ID: j.Calls[0].ID, Value: json.RawMessage(`2`)}); j.Result == nil || j.Result.Value["text/plain"] != "3" {
		t.Errorf("its end: %+v", j.Result)
	}
	if l := p.Load(); l.Running != 0 || l.Waiting != 0 || waiting(p) != 0 {
		t.Errorf("after its end: %+v, %v", l, waiting(p))
	}
}

// TestQueueingAgainEnds: a cancellation, and the end of its time, end code that waits for its client or for a slot to go on with.
func TestQueueingAgainEnds(t *testing.T) {
	p, _, _ := newReal(t, single)
	s := open(t, p, NewSession{Tools: []Tool{searchTool}})
	for name, c := range map[string]struct {
		queues  bool
		wall    time.Duration
		end     func(id string)
		because string
	}{
		"cancelled while it waits":  {false, time.Hour, func(id string) { p.CancelJob("", id) }, "cancelled"},
		"cancelled while it queues": {true, time.Hour, func(id string) { p.CancelJob("", id) }, "cancelled"},
		"late while it waits":       {false, time.Second, func(string) {}, "timeout"},
		"late while it queues":      {true, time.Second, func(string) {}, "timeout"},
	} {
		q := Request{Where: Where{Session: s.ID}, Code: []byte("from tools import search\nsearch()")}
		q.Limits.Wall = c.wall
		id, done := p.Begin(t.Context(), q)
		j := resume(t, p, id)
		if len(j.Calls) == 0 {
			t.Fatalf("%s: %+v", name, j.Result)
		}
		leave := take(t, p)
		if c.queues {
			deliver(t, p, id, j.Calls[0].ID)
			hosttest.Until(t, "it queues again", func() bool { j, _ := p.Job("", id); return p.Load().Waiting == 1 || j.Result != nil })
		}
		c.end(id)
		<-done
		if j, _ := p.Job("", id); j.Result.Ended != c.because || j.Result.StateLost != "" {
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

// TestOthersStillWait: code that got one of its answers goes on with slots, and has none for ever for the sake of the others.
func TestOthersStillWait(t *testing.T) {
	p, _, _ := newReal(t, single)
	s := open(t, p, NewSession{Language: "node", Tools: []Tool{searchTool}})
	id := begin(t, p, s, "const { search } = require('tools'); const all = [search({ n: 0 }), search({ n: 1 })]; console.log(await all[0]); await all[1]")
	j := resume(t, p, id)
	for len(j.Calls) < 2 {
		j = resume(t, p, id)
	}
	slices.SortFunc(j.Calls, func(a, b ToolCall) int { return bytes.Compare(a.Arguments, b.Arguments) })
	deliver(t, p, id, j.Calls[0].ID)
	hosttest.Until(t, "the code has gone on", func() bool { j, _ := p.Job("", id); return j.Stdout == "1\n" })
	hosttest.Until(t, "its slot is free", func() bool { return p.Load().Running == 0 })
	take(t, p)()
	if j = resume(t, p, id, ToolResult{ID: j.Calls[1].ID, Value: json.RawMessage(`2`)}); j.Result == nil || j.Result.Value["text/plain"] != "2" {
		t.Errorf("got %+v", j.Result)
	}
}

// waiting counts the effects that wait for their clients.
func waiting(p *Pipeline) (n int) {
	p.under.mu.Lock()
	defer p.under.mu.Unlock()
	for _, l := range p.under.all {
		if l.waitsFor != "" {
			n++
		}
	}
	return n
}

// TestTooManyWait: no caller has more executions wait than it may. A further one is told so, and keeps no slot.
func TestTooManyWait(t *testing.T) {
	p, log, _ := newReal(t, single)
	s := open(t, p, NewSession{Tools: []Tool{searchTool}})
	other := &live{}
	for n := range waitingOf(1) {
		other = &live{}
		p.under.mu.Lock()
		p.under.all[fmt.Sprint(n)] = other
		p.under.mu.Unlock()
		if err := p.under.wait(other, "namespace default", waitingOf(1)); err != nil {
			t.Fatal(err)
		}
	}
	j := resume(t, p, begin(t, p, s, "from tools import search, ToolError\ntry: search()\nexcept ToolError as e: text = str(e)\ntext"))
	if j.Result == nil || !strings.Contains(j.Result.Value["text/plain"], "16 executions wait for results of tools already") {
		t.Errorf("one too many: %+v %+v", j.Calls, j.Result)
	}
	if r := rows(t, log, "session.tool_answered"); len(r) != 1 || !strings.Contains(r[0], `"ended":"refused"`) {
		t.Errorf("the log has %q", r)
	}
	p.under.goOn(other)
	if j = resume(t, p, begin(t, p, s, "search()")); len(j.Calls) != 1 {
		t.Errorf("when another has ended: %+v", j.Result)
	}
}
