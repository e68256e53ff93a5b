package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// tasks are background runs that clients follow with tasks/get, tasks/result and tasks/cancel. The
// library keeps their state, but cancels the context of a task as soon as it has answered that the
// task began, and does not tell a handler which task it serves. So a task is a background run of the
// pipeline, and what the library knows of it is found by its hooks.
type tasks struct {
	mu  sync.Mutex
	all map[string]*task // by the library's ids
}

type task struct {
	job, namespace string // "" until it has begun
	cancelled      bool
}

const (
	defaultTask = time.Hour      // how long a task is known where the client does not say
	maxTask     = 24 * time.Hour // and at most: the library forgets none by itself
)

// boundTask gives each task an end.
func boundTask(_ context.Context, _ any, r *mcp.CallToolRequest) {
	if r.Params.Task == nil {
		return
	}
	ttl := defaultTask.Milliseconds()
	if asked := r.Params.Task.TTL; asked != nil && *asked > 0 {
		ttl = min(*asked, maxTask.Milliseconds())
	}
	r.Params.Task.TTL = &ttl
}

// hooks follow the library's tasks; cancel ends a background run.
func (t *tasks) hooks(cancel func(namespace, id string) bool) *server.TaskHooks {
	h := &server.TaskHooks{}
	h.AddOnTaskCreated(func(ctx context.Context, m server.TaskMetrics) {
		notesFrom(ctx).task = m.TaskID
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.all == nil {
			t.all = map[string]*task{}
		}
		t.all[m.TaskID] = &task{}
	})
	h.AddOnTaskCancelled(func(_ context.Context, m server.TaskMetrics) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one := t.all[m.TaskID]; one != nil {
			one.cancelled = true
			cancel(one.namespace, one.job)
		}
	})
	return h
}

// began notes the run of a task, and reports whether it was cancelled before.
func (t *tasks) began(id, namespace, job string) (cancelled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.all[id]
	if one == nil {
		return false
	}
	one.namespace, one.job = namespace, job
	return one.cancelled
}

func (t *tasks) ended(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, id)
}

// runAsTask runs in the background and returns when that is done. Its context is of no use: see tasks.
func (s *Server) runAsTask(ctx context.Context, q pipeline.Request) (*answer, error) {
	id, done := s.cfg.Pipeline.Begin(q)
	number := notesFrom(ctx).task
	if s.tasks.began(number, q.Namespace, id) {
		s.cfg.Pipeline.CancelJob(q.Namespace, id)
	}
	defer s.tasks.ended(number)
	<-done
	return s.finished(q.Namespace, id)
}
