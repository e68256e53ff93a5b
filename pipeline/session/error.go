package session

import (
	"errors"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// ErrorOf returns the error of a stage about a session, with its remedy, unless it has that already.
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
		e.Remedy = pipeline.Remedy{"name a context that the session has"}
	case errors.Is(err, ErrNoAgent):
		e.Remedy = pipeline.Remedy{"open it with the profile hardened, by a program file that every user may execute"}
	case errors.Is(err, ErrContexts):
		e.Remedy = pipeline.Remedy{"remove one that is not needed any more"}
	case errors.Is(err, ErrFull):
		e.Remedy = pipeline.Remedy{"end one with ", remedy.EndSession, ", or ", remedy.Raise.With("sessions.per_namespace or sessions.total")}
	default:
		return pipeline.WrapError(stage, err)
	}
	return e
}

// StatusOf returns the status of HTTP that says why an effect was not performed: that the server is busy, that there is
// no such session, that policy refuses it, or else that something broke.
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
