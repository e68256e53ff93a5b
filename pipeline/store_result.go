package pipeline

import (
	"context"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

// artifactDir returns where a run's artifacts are saved: where its caller wants them, or in the result store.
func (e *execution) artifactDir() string {
	if e.request.Artifacts == "" && e.p.cfg.Results != nil {
		return e.p.cfg.Results.ArtifactDir(e.res.ID)
	}
	return e.request.Artifacts
}

// storeResult stores the result for later requests. If that fails, the run's result stands.
func (r *run) storeResult(ctx context.Context) {
	if r.p.cfg.Results == nil {
		return
	}
	res := r.res
	res.Stdout, res.Stderr, res.Receipt = "", "", nil // the log has the receipt
	text, err := res.MarshalJSON()                    // json.Marshal would read what this returns once more
	if err == nil {
		k := results.Record{
			ID: res.ID, Namespace: res.Namespace, Session: res.Session, Language: res.Language, Name: res.Name,
			Ended: res.Ended, ExitCode: res.ExitCode, Time: time.Now().UTC(), Result: text,
			Stdout: r.res.Stdout, Stderr: r.res.Stderr, StdoutCut: res.StdoutCut, StderrCut: res.StderrCut, Artifacts: res.Artifacts,
		}
		err = r.p.cfg.Results.Put(ctx, k)
	}
	if err != nil {
		r.warn(r.clean(HidePaths("the result can't be kept for later: "+err.Error(), err)))
	}
}
