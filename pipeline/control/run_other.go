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

// Taken is a run that a server has taken on; here none does.
type Taken struct{}

// Offer returns nil: nothing is handed over.
func Offer(context.Context, string, func() string, run.Request) *Taken { return nil }

// Do is never called.
func (*Taken) Do(context.Context, run.Request) (pipeline.Outcome, error) {
	return pipeline.Outcome{}, ErrLost
}
