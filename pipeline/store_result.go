package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

// findArtifacts opens the directory that a caller wants artifacts in, as far as it is there: whatever a program does
// then, they are saved there. What is missing is made when there is something to save, so a run that is refused makes
// nothing.
func (r *run) findArtifacts(name string) (*hostfs.Dir, error) {
	if name == "" {
		return nil, nil
	}
	d, err := hostfs.FindDir(name)
	if link, is := errors.AsType[*hostfs.Link](err); is {
		return nil, refuse(StageValidate, "the directory for artifacts: "+err.Error(),
			"if it is meant, name what it leads to: ", remedy.Artifacts.With(link.To))
	}
	if err != nil {
		return nil, refuse(StageValidate, fmt.Sprintf("the directory for artifacts: %v", err),
			"name a directory that can be written with ", remedy.Artifacts)
	}
	r.releases = append(r.releases, func() { d.Close() })
	return d, nil
}

// artifactDir opens where a run's artifacts are saved: where its caller wants them, or in the result store. nil saves
// none.
func (e *execution) artifactDir() func() (*os.Root, error) {
	switch {
	case e.saves != nil:
		return e.saves.Open
	case e.p.cfg.Results == nil:
		return nil
	}
	return func() (root *os.Root, err error) {
		if root, err = e.p.cfg.Results.OpenArtifacts(e.res.ID); err == nil {
			e.releases = append(e.releases, func() { root.Close() })
		}
		return root, err
	}
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
			End: res.End, Time: time.Now().UTC(), Result: text,
			Stdout: r.res.Stdout, Stderr: r.res.Stderr, StdoutCut: res.StdoutCut, StderrCut: res.StderrCut, Artifacts: res.Artifacts,
		}
		err = r.p.cfg.Results.Put(ctx, k)
	}
	if err != nil {
		r.warn(r.clean(HidePaths("the result can't be kept for later: "+err.Error(), err)))
	}
}
