package run

import (
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// runRoom holds the background runs and parsers of a pipeline.
type runRoom struct {
	jobs      jobs
	analysers analysers
}

func stateOf(p *pipeline.Pipeline) *runRoom { return pipeline.PackageState(p, openRuns) }

func openRuns(p *pipeline.Pipeline) *runRoom {
	session.Prepare(p) // first, so that Close ends sessions after the runs in them
	r := &runRoom{}
	p.OnClose(r.analysers.close)
	p.OnClose(r.jobs.close)
	return r
}
