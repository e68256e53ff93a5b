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

// A task is a call whose answer the client fetches later. The server decides which, for clients that declare the
// extension of 2026-07-28: https://github.com/modelcontextprotocol/ext-tasks. Those of 2025-11-25, which are another
// protocol, are not served: each client that knows them calls without where initialize does not offer them. A task is
// made of a whole request.

const (
	// taskAfter is how long a call of a client that knows the extension may take before it becomes a task: asking again
	// for what is done at once would only cost time.
	taskAfter = 500 * time.Millisecond
	// taskPoll is how often a client should ask.
	taskPoll = time.Second
	// taskTime is how long a task is known.
	taskTime = time.Hour
	// maxTasks is how many are known at once, and maxTaskBytes what their answers take. The oldest that have ended go
	// first.
	maxTasks, maxTaskBytes = 256, 64 << 20
)

// ErrCancelled is why a call is cancelled whose client says so.
var ErrCancelled = errors.New("the client cancelled the call")

// tasks holds the tasks of one connection, the oldest first.
type tasks struct {
	mu    sync.Mutex
	all   []*task
	bytes int // of all answers
}

type task struct {
	id     string
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when there is the answer

	changed time.Time
	state   string // working, completed, failed or cancelled
	answer  []byte // encoded, as the call would have been answered
	result  json.RawMessage
	fault   json.RawMessage
}

// mayBeTask reports whether a call may become a task.
func (s *Server) mayBeTask(m *Message) bool {
	return m.knowsTasks && m.unread == nil && slices.Contains(s.cfg.Background, m.Called.Name)
}

// IsTask reports whether a request is a task, or may become one: then its client's user can't be asked meanwhile.
func (m *Message) IsTask() bool { return m.task != nil }

func (m *Message) needsTasks() *Fault {
	return m.Refuse(mcp.MISSING_REQUIRED_CLIENT_CAPABILITY,
		fmt.Sprintf("tasks are for clients that declare the extension %s in the request's %q", tasksExtension, mcp.MetaKeyClientCapabilities)).
		with(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: struct{}{}}}})
}

// runTask does a call, and answers it with its result, or after a while with a task.
func (c *conn) runTask(ctx context.Context, m *Message, u *underway, answer func([]byte), ended func()) {
	t, now := m.task, time.Now()
	t.id, t.began, t.changed, t.state, t.done, t.cancel = rand.Text(), now, now, "working", make(chan struct{}), u.cancel
	c.calls.Add(1)
	go func() {
		defer c.calls.Done()
		defer ended()
		c.tasks.end(t, c.handle(ctx, m))
	}()
	select {
	case <-t.done:
		answer(t.answer)
		return
	case <-time.After(taskAfter):
	}
	if !c.tasks.add(t) {
		<-t.done
		answer(t.answer)
		return
	}
	m.quiet.Store(true) // the protocol has no progress of tasks
	made := c.tasks.view(t)
	made["resultType"] = "task"
	delete(made, "result") // of one that has ended meanwhile: the answer is fetched
	delete(made, "error")
	answer(c.reply(m, made))
}

// add notes a task, unless too many are under way.
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

// prune forgets tasks whose time is up, and as many others that have ended as are above the bounds.
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

func (t *task) expired() bool { return time.Since(t.began) > taskTime }

// end notes the answer to a task's call. A task that was cancelled stays that.
func (s *tasks) end(t *task, answer []byte) {
	var m envelope
	_ = json.Unmarshal(answer, &m) // it is ours
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

// view is a task as clients see it, with its answer if that has come.
func (s *tasks) view(t *task) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := map[string]any{"taskId": t.id, "status": t.state, "createdAt": t.began.UTC().Format(time.RFC3339), "lastUpdatedAt": t.changed.UTC().Format(time.RFC3339),
		"ttlMs": taskTime.Milliseconds(), "pollIntervalMs": taskPoll.Milliseconds()}
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

// isOfTasks reports whether a request is about tasks.
func (m *Message) isOfTasks() bool {
	return m.Modern && (m.method == methodTaskGet || m.method == methodTaskCancel || m.method == methodTaskUpdate)
}

// aboutTask answers a request about tasks.
func (c *conn) aboutTask(m *Message) []byte {
	if !m.knowsTasks {
		return m.needsTasks().encode()
	}
	var p struct {
		ID string `json:"taskId"`
	}
	if err := json.Unmarshal(m.Params, &p); m.Params != nil && err != nil {
		return m.Refuse(mcp.INVALID_PARAMS, `"taskId" must be a string, as the answer that began the task has it`).encode()
	}
	t := c.tasks.find(p.ID)
	if t == nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("there is no task %q: each is known until its ttl is over, to the connection that began it", safetext.Clip(p.ID, 100))).encode()
	}
	switch m.method {
	case methodTaskGet:
		return c.reply(m, c.tasks.view(t))
	case methodTaskCancel:
		c.tasks.stop(t)
	} // no task of ours asks for anything, and updates, which answer, are ignored
	return c.reply(m, map[string]any{})
}

func (s *tasks) find(id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(t *task) bool { return t.id == id })
	if i < 0 || s.all[i].answer != nil && s.all[i].expired() {
		return nil
	}
	return s.all[i]
}

// stop cancels a task, unless it has ended.
func (s *tasks) stop(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state == "working" {
		t.state, t.changed = "cancelled", time.Now()
		t.cancel(ErrCancelled)
	}
}

// reply encodes an answer about tasks.
func (c *conn) reply(m *Message, result map[string]any) []byte {
	if result["resultType"] == nil {
		result["resultType"] = mcp.ResultTypeComplete
	}
	result["_meta"] = map[string]any{mcp.MetaKeyServerInfo: map[string]string{"name": "sandboxmcp", "version": c.s.cfg.Version}}
	return m.encoded(result)
}

// working reports whether a task is under way.
func (s *tasks) working() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(t *task) bool { return t.answer == nil })
}
