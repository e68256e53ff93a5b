package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// ToolCall is a call of a tool by running code. It contains no secrets.
type ToolCall struct {
	ID        string          `json:"id"` // of its row in the audit log
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

// ToolResult is the result of a call: a value, or the text of an error.
type ToolResult struct {
	ID    string
	Value json.RawMessage
	Error string
}

// NewToolResult returns the result of a call: a value (none is null), or an error, whose text is a JSON string or
// else the JSON itself.
func NewToolResult(id string, value json.RawMessage, failed bool) ToolResult {
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	if !failed {
		return ToolResult{ID: id, Value: value}
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	return ToolResult{ID: id, Error: cmp.Or(text, "the tool failed")}
}

// ErrNoCall is the error for a result whose call does not wait, or never existed.
var ErrNoCall = errors.New("no call waits for this result")

// toolCalls are the calls of a run that wait for their results.
type toolCalls struct {
	mu     sync.Mutex
	open   []ToolCall
	answer map[string]chan ToolResult
	fresh  chan struct{} // closed at the next call
}

// call adds a call, and waits for its result.
func (c *toolCalls) call(ctx context.Context, q ToolCall) (ToolResult, error) {
	answer := make(chan ToolResult, 1)
	c.mu.Lock()
	c.open = append(c.open, q)
	c.answer[q.ID] = answer
	close(c.fresh)
	c.fresh = make(chan struct{})
	c.mu.Unlock()
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(q.ID)
	return ToolResult{}, context.Cause(ctx)
}

// remove drops a call that no longer waits. The caller holds the mutex.
func (c *toolCalls) remove(id string) {
	c.open = slices.DeleteFunc(c.open, func(q ToolCall) bool { return q.ID == id })
	delete(c.answer, id)
}

// deliver passes results to their waiting calls. If one result has no waiting call, it delivers none.
func (c *toolCalls) deliver(results []ToolResult) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	for _, r := range results {
		if c.answer[r.ID] == nil || seen[r.ID] {
			return fmt.Errorf("%w: %.64q", ErrNoCall, r.ID)
		}
		seen[r.ID] = true
	}
	for _, r := range results {
		c.answer[r.ID] <- r
		c.remove(r.ID)
	}
	return nil
}

// waiting returns the waiting calls, and a channel that is closed at the next call.
func (c *toolCalls) waiting() ([]ToolCall, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.open), c.fresh
}

// gather is the time that Resume waits for more calls after the first: code that makes several at a time makes them
// within less.
const gather = 10 * time.Millisecond

// Resume passes results of tool calls to a background run, and waits until the run has waiting calls or is done. It
// returns all waiting calls; if known, which may be nil, reports true for all of them, it waits for another.
func Resume(ctx context.Context, p *pipeline.Pipeline, namespace, id string, results []ToolResult, known func(ToolCall) bool) (Job, error) {
	j := stateOf(p).jobs.findJob(namespace, id)
	if j == nil {
		return Job{}, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown background run %.64q", id), "name one that waits for results")
	}
	if err := j.calls.deliver(results); err != nil {
		calls, _ := j.calls.waiting()
		var ids []string
		for _, c := range calls {
			ids = append(ids, c.ID)
		}
		return Job{}, pipeline.RefuseBecause(err, pipeline.StageValidate, "send one result for each waiting call: ", strings.Join(ids, ", "))
	}
	for {
		calls, more := j.calls.waiting()
		gathered := (<-chan time.Time)(nil)
		if slices.ContainsFunc(calls, func(c ToolCall) bool { return known == nil || !known(c) }) {
			timer := time.NewTimer(gather)
			defer timer.Stop()
			gathered, more = timer.C, nil
		}
		select {
		case <-more:
		case <-gathered:
			if calls, _ := j.calls.waiting(); len(calls) > 0 {
				return stateOf(p).jobs.current(j), nil
			}
		case <-j.done:
			return stateOf(p).jobs.current(j), nil
		case <-ctx.Done():
			return Job{}, context.Cause(ctx)
		}
	}
}
