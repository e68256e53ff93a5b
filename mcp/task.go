package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// A task is a call whose answer the client fetches later. In the protocol 2025-11-25 the client asks for one with the
// parameter "task"; in the extension of 2026-07-28 the server decides, for clients that declare it:
// https://github.com/modelcontextprotocol/ext-tasks. A task is made of a whole request.

const (
	tasksExtension = "io.modelcontextprotocol/tasks"

	// taskAfter is how long a call of a client that knows the extension may take before it becomes a task: asking again for
	// what is done at once would only cost time.
	taskAfter = 500 * time.Millisecond
	// taskPoll is how often a client should ask.
	taskPoll = time.Second
	// defaultTask is how long a task is known where the client does not say, and maxTask at most.
	defaultTask, maxTask = time.Hour, 24 * time.Hour
	// maxTasks is how many are known at once, and maxTaskBytes what their answers take. The oldest that have ended go first.
	maxTasks, maxTaskBytes = 256, 64 << 20
)

// tasks holds the tasks of one connection, the oldest first.
type tasks struct {
	mu    sync.Mutex
	all   []*task
	bytes int // of all answers
}

type task struct {
	id     string
	ttl    time.Duration
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when there is the answer

	changed time.Time
	state   string // working, completed, failed or cancelled
	answer  []byte // encoded, as the call would have been answered
	result  json.RawMessage
	fault   json.RawMessage
}

// asTask notes what a call says about being a task, and refuses it where that can't be.
func (s *Server) asTask(m *message) *fault {
	p := m.called
	if p.Name == "" || m.unread != nil {
		return nil // what is wrong with it is said elsewhere
	}
	able := slices.Contains(s.background, p.Name)
	switch {
	case m.knowsTasks: // "task" means nothing to it
		if able {
			m.task = &task{ttl: defaultTask}
		}
		return nil
	case p.Task == nil:
		return nil
	case m.modern:
		return m.needsTasks()
	case !able && s.tool(p.Name) == nil:
		return nil
	case !able:
		return m.refuse(mcp.METHOD_NOT_FOUND, fmt.Sprintf("%s can't run as a task: leave out \"task\"", p.Name))
	}
	var asked struct {
		TTL *float64 `json:"ttl"`
	}
	if p.Task[0] != '{' || json.Unmarshal(p.Task, &asked) != nil || asked.TTL != nil && *asked.TTL <= 0 {
		return m.refuse(mcp.INVALID_PARAMS, `"task" must be {} or {"ttl": N}, N the milliseconds for which the task is to be known`)
	}
	m.task = &task{ttl: defaultTask}
	if asked.TTL != nil {
		m.task.ttl = time.Duration(min(*asked.TTL, float64(maxTask.Milliseconds()))) * time.Millisecond
	}
	return nil
}

func (m *message) needsTasks() *fault {
	return m.refuse(mcp.MISSING_REQUIRED_CLIENT_CAPABILITY,
		fmt.Sprintf("tasks are for clients that declare the extension %s in the request's %q", tasksExtension, mcp.MetaKeyClientCapabilities)).
		with(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: struct{}{}}}})
}

// runTask does a call, and answers it with its result, or with a task if the client has asked for that, or waits already.
func (c *conn) runTask(ctx context.Context, m *message, u *underway, answer func([]byte), ended func()) {
	t := m.task
	t.id, t.began, t.state, t.done, t.cancel = rand.Text(), time.Now(), "working", make(chan struct{}), u.cancel
	t.changed = t.began
	if !m.modern && !c.tasks.add(t) {
		answer(m.refuse(codeBusy, fmt.Sprintf("busy: %d tasks are under way, try again when some have ended", maxTasks)).encode())
		ended()
		return
	}
	c.calls.Add(1)
	go func() {
		defer c.calls.Done()
		defer ended()
		c.tasks.end(t, c.handle(ctx, m))
	}()
	if m.modern {
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
	}
	c.tasks.mu.Lock()
	made := t.view(m.modern)
	c.tasks.mu.Unlock()
	if m.modern {
		made["resultType"] = "task"
	} else {
		made = map[string]any{"task": made}
	}
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

func (t *task) expired() bool { return time.Since(t.began) > t.ttl }

// end notes the answer to a task's call. A task that was cancelled stays that.
func (s *tasks) end(t *task, answer []byte) {
	var m message
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

// view is a task as clients of an era see it.
func (t *task) view(modern bool) map[string]any {
	v := map[string]any{"taskId": t.id, "status": t.state, "createdAt": stamp(t.began), "lastUpdatedAt": stamp(t.changed)}
	if modern {
		v["ttlMs"], v["pollIntervalMs"] = t.ttl.Milliseconds(), taskPoll.Milliseconds()
		return v
	}
	v["ttl"], v["pollInterval"] = t.ttl.Milliseconds(), taskPoll.Milliseconds()
	var r struct{ IsError bool }
	if _ = json.Unmarshal(t.result, &r); r.IsError && t.state == "completed" { // the older protocol has it so
		v["status"], v["statusMessage"] = "failed", "the call failed: tasks/result says why"
	}
	return v
}

// ofTasks reports whether a request is about tasks, and of a method that its era has.
func (m *message) ofTasks() bool {
	switch mcp.MCPMethod(m.method) {
	case mcp.MethodTasksGet, mcp.MethodTasksCancel:
		return true
	case mcp.MethodTasksList, mcp.MethodTasksResult:
		return !m.modern
	case "tasks/update":
		return m.modern
	}
	return false
}

// aboutTask answers a request about tasks.
func (c *conn) aboutTask(ctx context.Context, m *message) []byte {
	if m.modern && !m.knowsTasks {
		return m.needsTasks().encode()
	}
	var p struct {
		ID     string           `json:"taskId"`
		Cursor string           `json:"cursor"`
		Inputs *json.RawMessage `json:"inputResponses"`
	}
	if err := json.Unmarshal(m.Params, &p); m.Params != nil && err != nil {
		return m.refuse(mcp.INVALID_PARAMS, `"taskId" must be a string, as the answer that began the task has it`).encode()
	}
	if m.method == string(mcp.MethodTasksList) {
		if p.Cursor != "" {
			return m.refuse(mcp.INVALID_PARAMS, "there is no such page: leave out \"cursor\"").encode()
		}
		return c.reply(m, map[string]any{"tasks": c.tasks.list()})
	}
	t := c.tasks.find(p.ID)
	if t == nil {
		return m.refuse(mcp.INVALID_PARAMS, fmt.Sprintf("there is no task %q: each is known until its ttl is over, to the connection that began it", clip(p.ID, 100))).encode()
	}
	switch mcp.MCPMethod(m.method) {
	case mcp.MethodTasksCancel:
		state := c.tasks.stop(t)
		if m.modern {
			return c.reply(m, map[string]any{})
		}
		if state != "" {
			return m.refuse(mcp.INVALID_PARAMS, "the task has ended already: it is "+state).encode()
		}
	case mcp.MethodTasksResult:
		select {
		case <-t.done:
			return c.taskResult(m, t)
		case <-ctx.Done(): // who cancels gets no answer
			return m.refuse(mcp.REQUEST_INTERRUPTED, context.Cause(ctx).Error()).encode()
		}
	case "tasks/update": // no task of ours asks for anything, and answers to nothing are ignored
		return c.reply(m, map[string]any{})
	}
	c.tasks.mu.Lock()
	defer c.tasks.mu.Unlock()
	v := t.view(m.modern)
	switch {
	case m.modern && t.state == "completed":
		v["result"] = t.result
	case m.modern && t.state == "failed":
		v["error"] = t.fault
	}
	return c.reply(m, v)
}

func (s *tasks) list() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []map[string]any{}
	for _, t := range slices.Backward(s.all) {
		list = append(list, t.view(false))
	}
	return list
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

// stop cancels a task. It returns the state of one that has ended, and "" otherwise.
func (s *tasks) stop(t *task) (ended string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state != "working" {
		return t.state
	}
	t.state, t.changed = "cancelled", time.Now()
	t.cancel(errCancelled)
	return ""
}

// taskResult answers tasks/result as the call itself would have been answered.
func (c *conn) taskResult(m *message, t *task) []byte {
	if t.fault != nil {
		var e mcp.JSONRPCErrorDetails
		_ = json.Unmarshal(t.fault, &e) // it is ours
		return m.refuse(e.Code, e.Message).with(e.Data).encode()
	}
	var result, meta map[string]json.RawMessage
	_ = json.Unmarshal(t.result, &result) // both are ours
	_ = json.Unmarshal(result["_meta"], &meta)
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[mcp.RelatedTaskMetaKey] = marshal(mcp.RelatedTaskMeta(t.id))
	result["_meta"] = marshal(meta)
	if t.state == "cancelled" {
		result["isError"] = json.RawMessage("true")
	}
	return m.encoded(result)
}

// reply encodes an answer about tasks.
func (c *conn) reply(m *message, result map[string]any) []byte {
	if m.modern {
		if result["resultType"] == nil {
			result["resultType"] = mcp.ResultTypeComplete
		}
		result["_meta"] = map[string]any{mcp.MetaKeyServerInfo: map[string]string{"name": "sandboxmcp", "version": c.s.cfg.Version}}
	}
	return m.encoded(result)
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // our bug: it is made of strings and JSON
		return json.RawMessage("null")
	}
	return b
}

// working reports whether a task is under way.
func (s *tasks) working() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(t *task) bool { return t.answer == nil })
}
