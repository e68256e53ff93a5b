package run

import (
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// runRoom is what is kept of the runs of a pipeline.
type runRoom struct {
	jobs      jobs
	analysers analysers
}

func stateOf(p *pipeline.Pipeline) *runRoom { return pipeline.PackageState(p, openRuns) }

func openRuns(p *pipeline.Pipeline) *runRoom {
	session.Prepare(p) // which Close ends after what runs in it
	r := &runRoom{}
	p.OnClose(r.analysers.close)
	p.OnClose(r.jobs.close)
	return r
}
