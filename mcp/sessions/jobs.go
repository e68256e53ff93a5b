package sessions

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// job is a background run in the API's format.
type job struct {
	ID     string    `json:"id"`
	Tool   string    `json:"tool,omitempty"`
	State  string    `json:"state"` // "running" or "done"
	Began  time.Time `json:"began_at"`
	Stdout string    `json:"stdout_tail"` // the last of its output so far
	Stderr string    `json:"stderr_tail"`
	Block  *block    `json:"result,omitempty"` // once it is done: the response to the same call in the foreground
	Ended  string    `json:"ended,omitempty"`  // how it ended, if only the log knows it
}

// maxWait bounds a request's wait for a job. maxCalls bounds the jobs of a session whose calls are remembered.
const (
	maxWait  = 50 * time.Second // clients and proxies give up after a minute
	maxCalls = 256
)

// startJob starts code in the background. It runs until the session ends or the caller's token expires, even if the
// client disconnects.
func (s *Server) startJob(w http.ResponseWriter, r *http.Request, st *state, c call, q run.Request) error {
	id, _ := run.StartJob(r.Context(), s.cfg.Pipeline, q)
	st.mu.Lock()
	if len(st.calls) >= maxCalls {
		clear(st.calls)
	}
	if st.calls == nil {
		st.calls = map[string]call{}
	}
	st.calls[id] = call{Tool: c.Tool, UseID: c.UseID}
	st.mu.Unlock()
	w.Header().Set("Location", Root+"/"+r.PathValue("id")+"/jobs/"+id)
	return door.Reply(w, http.StatusAccepted, job{ID: id, Tool: c.Tool, State: "running", Began: time.Now().UTC()})
}

// describeJob returns a job in the API's format.
func (s *Server) describeJob(st *state, j run.Job) job {
	st.mu.Lock()
	c := st.calls[j.ID]
	st.mu.Unlock()
	d := job{ID: j.ID, Tool: c.Tool, State: j.State, Began: j.Began, Stdout: j.Stdout, Stderr: j.Stderr}
	if j.Result == nil {
		return d
	}
	if c.Tool == "" { // started over another API
		c.Tool = codeTool
	}
	content, err := s.resultOfJob(c, *j.Result)
	if err != nil {
		content = failure(c.Tool, codeNone, pipeline.PublicText(err))
	}
	b := c.block(content)
	d.Block = &b
	return d
}

// listJobs lists the jobs of a session, newest first.
func (s *Server) listJobs(w http.ResponseWriter, r *http.Request, st *state) error {
	list := []job{}
	for _, j := range run.Jobs(s.cfg.Pipeline, st.namespace) {
		if j.Session == r.PathValue("id") {
			list = append(list, s.describeJob(st, j))
		}
	}
	return door.Reply(w, http.StatusOK, map[string]any{"jobs": list})
}

// getJob answers with one job. With a query wait it waits that many seconds for the job to end.
func (s *Server) getJob(w http.ResponseWriter, r *http.Request, st *state) error {
	wait, err := strconv.ParseFloat(r.URL.Query().Get("wait"), 64)
	if text := r.URL.Query().Get("wait"); text != "" && (err != nil || !(wait >= 0)) {
		return door.Refuse(http.StatusBadRequest, "wait must be a number of seconds, 0 or more")
	}
	id := r.PathValue("job")
	if _, ok := s.jobOf(r, st); !ok {
		if past, known := s.cfg.Pipeline.FindPast(r.Context(), st.namespace, id); known && !past.Session {
			return door.Reply(w, http.StatusOK, job{ID: id, State: "done", Began: past.Began, Ended: past.String()})
		}
		return door.Refuse(http.StatusNotFound, "job not found")
	}
	ctx, cancel := context.WithTimeout(r.Context(), min(seconds(min(wait, maxWait.Seconds())), maxWait))
	defer cancel()
	run.WaitJob(ctx, s.cfg.Pipeline, st.namespace, id)
	j, _ := s.jobOf(r, st)
	return door.Reply(w, http.StatusOK, s.describeJob(st, j))
}

// jobOf returns the session's job that a request names.
func (s *Server) jobOf(r *http.Request, st *state) (run.Job, bool) {
	j, ok := run.JobOf(s.cfg.Pipeline, st.namespace, r.PathValue("job"))
	return j, ok && j.Session == r.PathValue("id")
}

// endJob kills a job. Killing a finished job is no error.
func (s *Server) endJob(w http.ResponseWriter, r *http.Request, st *state) error {
	if _, ok := s.jobOf(r, st); !ok {
		return door.Refuse(http.StatusNotFound, "job not found")
	}
	run.CancelJob(s.cfg.Pipeline, st.namespace, r.PathValue("job"))
	return door.Reply(w, http.StatusNoContent, nil)
}
