package session

import (
	"errors"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// ErrorOf returns an error of a stage about a session, and adds a remedy if it has none.
func ErrorOf(stage string, err error) error {
	e := pipeline.RefuseBecause(err, stage)
	switch {
	case errors.As(err, new(*pipeline.Error)):
		return pipeline.WrapError(stage, err)
	case errors.Is(err, ErrUnknown):
		e.Remedy = pipeline.Remedy{remedy.FindSession}
	case errors.Is(err, ErrDead):
		e.Remedy = pipeline.Remedy{"create a new one with ", remedy.CreateSession, "; its variables and files are gone"}
	case errors.Is(err, ErrNoContext), errors.Is(err, ErrBare):
		e.Remedy = pipeline.Remedy{"name a context of the session"}
	case errors.Is(err, ErrNoAgent):
		e.Remedy = pipeline.Remedy{"create the session with the profile hardened, and make the sandboxmcp binary executable for all users"}
	case errors.Is(err, ErrContexts):
		e.Remedy = pipeline.Remedy{"end a context that is no longer needed"}
	case errors.Is(err, ErrFull):
		e.Remedy = pipeline.Remedy{"end one with ", remedy.EndSession, ", or ", remedy.Raise.With("sessions.per_namespace or sessions.total")}
	default:
		return pipeline.WrapError(stage, err)
	}
	return e
}

// StatusOf returns the HTTP status for an error of an effect: the server is busy, the session is unknown, policy
// refused it, or an internal error.
func StatusOf(err error) int {
	own, _ := errors.AsType[*pipeline.Error](err)
	switch {
	case errors.Is(err, ErrFull), errors.Is(err, pipeline.ErrBusy), errors.As(err, new(*pipeline.UnrecordedError)):
		return http.StatusServiceUnavailable
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrDead):
		return http.StatusNotFound
	case own != nil && own.Denied:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
