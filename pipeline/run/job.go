package run

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Job is a run in the background.
type Job struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Session   string            `json:"session,omitempty"`
	State     string            `json:"state"` // "running" or "done"
	Began     time.Time         `json:"began"`
	Stdout    string            `json:"stdout_tail"` // the last 4 KiB of its output so far
	Stderr    string            `json:"stderr_tail"`
	Result    *pipeline.Outcome `json:"result,omitempty"` // once it is done

	Calls []ToolCall `json:"tool_calls,omitempty"` // calls of its session's tools that wait for results: see Resume
}

// jobs holds the running background runs, and the last finished ones.
type jobs struct {
	mu     sync.Mutex
	all    []*job // the oldest first
	closed bool
	going  sync.WaitGroup
}

type job struct {
	Job
	out, err output.Tail
	calls    *toolCalls
	cancel   context.CancelCauseFunc
	done     chan struct{}
}

// maxJobs bounds the background runs that are remembered. Running ones always are: the queue bounds them, and
// MaxWaiting those that wait for their client.
const maxJobs = 256

// ErrClosed ends background runs when the server shuts down.
var ErrClosed = errors.New("the server is shutting down")

// StartJob runs a request in the background until it is done, the pipeline closes, or the caller's token is revoked;
// it outlives ctx. JobOf finds it by its id; done is closed when it is done.
func StartJob(ctx context.Context, p *pipeline.Pipeline, q Request) (id string, done <-chan struct{}) {
	if q.ID == "" {
		q.ID = pipeline.NewID()
	}
	var place *session.Ticket
	if q.Context == "" { // only a session's first interpreter has a queue
		place = session.Enqueue(ctx, p, q.Namespace, q.Session)
	}
	release := door.VisitOf(ctx).RetainBody() // its code and inputs stay in memory until it is done
	ctx, cancel := identity.WithoutRequest(ctx)
	j := &job{calls: &toolCalls{answer: map[string]chan ToolResult{}, fresh: make(chan struct{})}, cancel: cancel, done: make(chan struct{})}
	j.Job = Job{ID: q.ID, Namespace: pipeline.NamespaceOrDefault(q.Namespace), Session: q.Session, State: "running", Began: time.Now().UTC()}
	q.Stdout, q.Stderr, q.calls = teeWriter(&j.out, q.Stdout), teeWriter(&j.err, q.Stderr), j.calls
	if !stateOf(p).jobs.add(j) {
		cancel(ErrClosed) // so the request is refused before it begins
	}
	p.Journal.Add(pipeline.JournalJob, q.ID, j.Namespace)
	stateOf(p).jobs.going.Go(func() {
		defer release()
		defer cancel(nil)
		defer place.Leave()
		defer close(j.done)
		_, res, _ := pipeline.Do(place.WithContext(ctx), p, q) // the result has its error
		stateOf(p).jobs.mu.Lock()
		j.State, j.Result = "done", &res
		stateOf(p).jobs.mu.Unlock()
	})
	return q.ID, j.done
}

// teeWriter returns a writer to w, and to another if there is one.
func teeWriter(w, other io.Writer) io.Writer {
	if other == nil {
		return w
	}
	return io.MultiWriter(w, other)
}

func (s *jobs) add(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, j)
	more := len(s.all) - maxJobs
	s.all = slices.DeleteFunc(s.all, func(old *job) bool {
		gone := more > 0 && old.State == "done"
		if gone {
			more--
		}
		return gone
	})
	return !s.closed
}

// findJob returns a background run of a namespace, or nil.
func (s *jobs) findJob(namespace, id string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.all {
		if j.ID == id && j.Namespace == pipeline.NamespaceOrDefault(namespace) {
			return j
		}
	}
	return nil
}

// JobOf returns a background run of a namespace, for a while after it is done too.
func JobOf(p *pipeline.Pipeline, namespace, id string) (Job, bool) {
	j := stateOf(p).jobs.findJob(namespace, id)
	if j == nil {
		return Job{}, false
	}
	return stateOf(p).jobs.current(j), true
}

// current returns a snapshot of a job.
func (s *jobs) current(j *job) Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return j.snapshot()
}

func (j *job) snapshot() Job {
	now := j.Job
	now.Calls, _ = j.calls.waiting()
	now.Stdout, now.Stderr = j.out.String(), j.err.String()
	return now
}

// WaitJob waits until a background run of a namespace is done, or ctx ends.
func WaitJob(ctx context.Context, p *pipeline.Pipeline, namespace, id string) {
	j := stateOf(p).jobs.findJob(namespace, id)
	if j == nil {
		return
	}
	select {
	case <-j.done:
	case <-ctx.Done():
	}
}

// Jobs lists the background runs of a namespace, or of all for "", the newest first.
func Jobs(p *pipeline.Pipeline, namespace string) []Job {
	stateOf(p).jobs.mu.Lock()
	defer stateOf(p).jobs.mu.Unlock()
	list := []Job{}
	for _, j := range slices.Backward(stateOf(p).jobs.all) {
		if namespace == "" || j.Namespace == namespace {
			list = append(list, j.snapshot())
		}
	}
	return list
}

// CancelJob kills a background run. It reports whether the run was still running.
func CancelJob(p *pipeline.Pipeline, namespace, id string) bool {
	j := stateOf(p).jobs.findJob(namespace, id)
	if j == nil || stateOf(p).jobs.current(j).State == "done" {
		return false
	}
	j.cancel(context.Canceled)
	return true
}

// close ends all background runs and waits for them.
func (s *jobs) close() {
	s.mu.Lock()
	s.closed = true
	for _, j := range s.all {
		j.cancel(ErrClosed)
	}
	s.mu.Unlock()
	s.going.Wait()
}
