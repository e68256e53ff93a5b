package rpc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// A task is a call whose response the client fetches later. The server chooses the calls that become tasks, for
// clients that declare the 2026-07-28 extension: https://github.com/modelcontextprotocol/ext-tasks. The tasks of
// 2025-11-25 are another protocol and not supported: clients call without them if initialize does not offer them. A
// task stands for a whole request.

const (
	// taskThreshold is how long a call may take before it becomes a task: polling for a fast call would only cost
	// time.
	taskThreshold = 500 * time.Millisecond
	// taskPoll is the recommended polling interval.
	taskPoll = time.Second
	// taskTTL is how long a task can be fetched.
	taskTTL = time.Hour
	// maxTasks bounds the tasks of a connection, and maxTaskBytes their responses. The oldest finished tasks are
	// removed first.
	maxTasks, maxTaskBytes = 256, 64 << 20
)

// ErrCancelled is the cause when a client cancels a call.
var ErrCancelled = errors.New("the client cancelled the call")

// tasks holds the tasks of one connection, oldest first.
type tasks struct {
	mu    sync.Mutex
	all   []*task
	bytes int // of all responses
}

type task struct {
	id     string
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the response is set

	changed time.Time
	state   string // working, completed, failed or cancelled
	answer  []byte // the encoded response to the call
	result  json.RawMessage
	fault   json.RawMessage
}

// mayBeTask reports whether a call may become a task.
func (s *Server) mayBeTask(m *Message) bool {
	return m.knowsTasks && m.paramsErr == nil && slices.Contains(s.cfg.Background, m.Called.Name)
}

// IsTask reports whether a request is a task or may become one. Its client's user can't be asked while it runs.
func (m *Message) IsTask() bool { return m.task != nil }

func (m *Message) refuseWithoutTasks() *Fault {
	return m.Refuse(mcp.MISSING_REQUIRED_CLIENT_CAPABILITY,
		fmt.Sprintf("tasks are for clients that declare the extension %s in the request's %q", tasksExtension, mcp.MetaKeyClientCapabilities)).
		with(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: struct{}{}}}})
}

// runTask runs a call, and answers it with its result or, after taskThreshold, with a task.
func (c *conn) runTask(ctx context.Context, m *Message, u *runningRequest, answer func([]byte), ended func()) {
	t, now := m.task, time.Now()
	t.id, t.began, t.changed, t.state, t.done, t.cancel = rand.Text(), now, now, "working", make(chan struct{}), u.cancel
	c.calls.Add(1)
	go func() {
		defer c.calls.Done()
		defer ended()
		c.tasks.finish(t, c.answerRequest(ctx, m))
	}()
	select {
	case <-t.done:
		answer(t.answer)
		return
	case <-time.After(taskThreshold):
	}
	if !c.tasks.add(t) {
		<-t.done
		answer(t.answer)
		return
	}
	m.progressEnded.Store(true) // the protocol has no progress for tasks
	made := c.tasks.describe(t)
	made["resultType"] = "task"
	delete(made, "result") // the task may have finished meanwhile: the client fetches its result
	delete(made, "error")
	answer(c.encodeReply(m, made))
}

// add adds a task, unless too many are running.
func (s *tasks) add(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(maxTasks-1, maxTaskBytes)
	if len(s.all) >= maxTasks {
		return false
	}
	s.all = append(s.all, t)
	s.bytes += len(t.answer)
	return true
}

// prune removes expired tasks, and as many other finished ones as exceed the bounds.
func (s *tasks) prune(count, bytes int) {
	over := len(s.all) - count
	s.all = slices.DeleteFunc(s.all, func(t *task) bool {
		drop := t.answer != nil && (over > 0 || s.bytes > bytes || t.expired())
		if drop {
			s.bytes -= len(t.answer)
			over--
		}
		return drop
	})
}

func (t *task) expired() bool { return time.Since(t.began) > taskTTL }

// finish stores the response of a task. A cancelled task stays cancelled.
func (s *tasks) finish(t *task, answer []byte) {
	var m envelope
	_ = json.Unmarshal(answer, &m) // our own encoding
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.answer, t.result, t.fault, t.changed = answer, m.Result, m.Error, time.Now(); t.state == "working" {
		t.state = "completed"
		if t.fault != nil {
			t.state = "failed"
		}
	}
	if slices.Contains(s.all, t) {
		s.bytes += len(answer)
		s.prune(maxTasks, maxTaskBytes)
	}
	close(t.done)
}

// describe returns a task in wire format, with its result if it has one.
func (s *tasks) describe(t *task) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := map[string]any{"taskId": t.id, "status": t.state, "createdAt": t.began.UTC().Format(time.RFC3339),
		"lastUpdatedAt": t.changed.UTC().Format(time.RFC3339),
		"ttlMs":         taskTTL.Milliseconds(), "pollIntervalMs": taskPoll.Milliseconds()}
	switch t.state {
	case "completed":
		v["result"] = t.result
	case "failed":
		v["error"] = t.fault
	}
	return v
}

// The methods of the extension.
const (
	methodTaskGet    = "tasks/get"
	methodTaskCancel = "tasks/cancel"
	methodTaskUpdate = "tasks/update"
)

// isTaskRequest reports whether a request has a method of the extension.
func (m *Message) isTaskRequest() bool {
	return m.Modern && (m.method == methodTaskGet || m.method == methodTaskCancel || m.method == methodTaskUpdate)
}

// answerTaskRequest answers a request about a task.
func (c *conn) answerTaskRequest(m *Message) []byte {
	if !m.knowsTasks {
		return m.refuseWithoutTasks().encode()
	}
	var p struct {
		ID string `json:"taskId"`
	}
	if err := json.Unmarshal(m.Params, &p); m.Params != nil && err != nil {
		return m.Refuse(mcp.INVALID_PARAMS, `"taskId" must be a string, from the response that started the task`).encode()
	}
	t := c.tasks.lookup(p.ID)
	if t == nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unknown task %q: a task is known until its ttl ends, on the connection that started it",
			safetext.Clip(p.ID, 100))).encode()
	}
	switch m.method {
	case methodTaskGet:
		return c.encodeReply(m, c.tasks.describe(t))
	case methodTaskCancel:
		c.tasks.cancel(t)
	} // our tasks never ask for input, so tasks/update is ignored
	return c.encodeReply(m, map[string]any{})
}

func (s *tasks) lookup(id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(t *task) bool { return t.id == id })
	if i < 0 || s.all[i].answer != nil && s.all[i].expired() {
		return nil
	}
	return s.all[i]
}

// cancel cancels a running task.
func (s *tasks) cancel(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state == "working" {
		t.state, t.changed = "cancelled", time.Now()
		t.cancel(ErrCancelled)
	}
}

// encodeReply encodes a response about tasks.
func (c *conn) encodeReply(m *Message, result map[string]any) []byte {
	if result["resultType"] == nil {
		result["resultType"] = mcp.ResultTypeComplete
	}
	result["_meta"] = map[string]any{mcp.MetaKeyServerInfo: map[string]string{"name": "sandboxmcp", "version": c.s.cfg.Version}}
	return m.encodeResult(result)
}

// hasRunning reports whether any task is running.
func (s *tasks) hasRunning() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(t *task) bool { return t.answer == nil })
}
