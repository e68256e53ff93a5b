//go:build !linux

package control

import (
	"context"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func (a *API) run(w http.ResponseWriter, _ *http.Request) {
	deny(w, failure(http.StatusPreconditionFailed, "%v", errUnlike))
}

// RemoteRun is a run that a server has accepted, which needs Linux.
type RemoteRun struct{}

// Submit returns nil: no server accepts runs here.
func Submit(context.Context, string, func() string, run.Request) *RemoteRun { return nil }

// Wait is never called.
func (*RemoteRun) Wait(context.Context, run.Request) (pipeline.Outcome, error) {
	return pipeline.Outcome{}, ErrLost
}
