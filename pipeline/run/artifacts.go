package run

import (
	"errors"
	"fmt"
	"os"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// FindArtifacts opens the directory that a caller wants artifacts in, as far as it is there: whatever a program does
// then, they are saved there. What is missing is made when there is something to save, so a run that is refused makes
// nothing.
func FindArtifacts(r *pipeline.Run, name string) (*hostfs.Dir, error) {
	if name == "" {
		return nil, nil
	}
	d, err := hostfs.FindDir(name)
	if link, is := errors.AsType[*hostfs.LinkError](err); is {
		return nil, pipeline.Refuse(pipeline.StageValidate, "the directory for artifacts: "+err.Error(),
			"to use it, name its target: ", remedy.Artifacts.With(link.To))
	}
	if err != nil {
		return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the directory for artifacts: %v", err),
			"name a directory that can be written with ", remedy.Artifacts)
	}
	r.Releases = append(r.Releases, func() { d.Close() })
	return d, nil
}

// artifactDir opens where a run's artifacts are saved: where its caller wants them, or in the result store. nil saves
// none.
func (e *execution) artifactDir() func() (*os.Root, error) {
	switch {
	case e.saves != nil:
		return e.saves.Open
	case e.Pipeline.Config.Results == nil:
		return nil
	}
	return func() (root *os.Root, err error) {
		if root, err = e.Pipeline.Config.Results.OpenArtifacts(e.Outcome.ID); err == nil {
			e.Releases = append(e.Releases, func() { root.Close() })
		}
		return root, err
	}
}
