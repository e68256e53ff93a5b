package run_test

import (
	"errors"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestClosedTakesNothing: a pipeline that was closed begins no run in the background and no session, also where it has
// had none before.
func TestClosedTakesNothing(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	r.Close()
	id, done := run.StartJob(t.Context(), r.Pipeline, run.Request{Language: "shell", Code: []byte("true")})
	<-done
	if j, ok := run.JobOf(r.Pipeline, "", id); !ok || j.Result.Refused == nil || !errors.Is(j.Result.Refused, run.ErrClosed) {
		t.Errorf("a run in the background after Close: %+v", j.Result)
	}
	if _, _, err := pipeline.Do(t.Context(), r.Pipeline, session.New{}); err == nil {
		t.Error("a session begins after Close")
	}
}
